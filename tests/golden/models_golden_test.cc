// The program against PyTorch's float64, through all rooms: a model of each family comes in from
// Hugging Face's format, trains five steps on the reference's batch, and must have its losses, its
// gradient norms and every gradient. Bounds are 20 times PyTorch's own distance from float32 to
// float64, which the golden files hold.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/tree.h"
#include "checkpoint/safetensors.h"
#include "data/indexed_dataset_writer.h"

namespace tessera {
namespace {

constexpr double kTimesOwn = 20;

// The tensors of one file, as doubles.
class Tensors {
 public:
  explicit Tensors(const Path& path) : file_(path) {}

  const checkpoint::SafetensorsEntry& entry(const std::string& name) const {
    for (const checkpoint::SafetensorsEntry& e : file_.entries()) {
      if (e.name == name) return e;
    }
    throw Error("{} has no {}", file_.path().string(), name);
  }
  template <class T>
  std::vector<T> get(const std::string& name) const {
    const auto bytes = file_.bytes(entry(name));
    std::vector<T> out(bytes.size() / sizeof(T));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  double number(const std::string& name) const { return std::stod(file_.metadata().at(name)); }
  const std::vector<checkpoint::SafetensorsEntry>& entries() const { return file_.entries(); }

 private:
  checkpoint::SafetensorsFile file_;
};

double relative_distance(const std::vector<float>& got, const std::vector<float>& want) {
  EXPECT_EQ(got.size(), want.size());
  double difference = 0, size = 0;
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i) {
    const double d = double{got[i]} - double{want[i]};
    difference += d * d;
    size += double{want[i]} * double{want[i]};
  }
  return std::sqrt(difference / size);
}

struct Family {
  const char* name;
  std::string model;  // of the run file; sizes are those of scripts/parity_golden.py
};

class ModelGolden : public ::testing::TestWithParam<Family> {
 protected:
  ModelGolden()
      : golden_(Path(TESSERA_GOLDEN_FOLDER) / GetParam().name),
        reference_(golden_ / "reference.safetensors"),
        folder_(std::filesystem::temp_directory_path() /
                fmt::format("tessera_golden_{}_{}", ::getpid(), GetParam().name)) {
    std::filesystem::create_directories(folder_);
  }
  ~ModelGolden() override { std::filesystem::remove_all(folder_); }

  void tessera(const std::string& arguments) const {
    const std::string log = (folder_ / "log").string();
    const std::string command = fmt::format("{} {} >{} 2>&1", TESSERA_PROGRAM, arguments, log);
    ASSERT_EQ(std::system(command.c_str()), 0) << command << "\n" << read_file(log);
  }

  // Pairs of texts for an encoder and a decoder, and their tokenizer.
  bool has_pairs() const { return std::filesystem::exists(golden_ / "pairs.jsonl"); }
  bool may_have_mtp() const {
    return std::ranges::any_of(reference_.entries(),
                               [](const auto& e) { return e.name == "mtp_losses"; });
  }
  Shape rows() const { return reference_.entry(has_pairs() ? "source" : "tokens").shape; }

  // One document that is cut into the rows of the reference's batch.
  void write_data() const {
    const Shape shape = reference_.entry("tokens").shape;
    const std::vector<int32_t> rows = reference_.get<int32_t>("tokens");
    std::vector<int32_t> stream;
    for (int64_t b = 0; b < shape[0]; ++b) {
      const auto row = rows.begin() + b * shape[1];
      stream.insert(stream.end(), row, row + shape[1] - 1);
    }
    stream.push_back(rows.back());
    data::IndexedDatasetWriter writer(folder_ / "data", DType::kU16);
    writer.add_document(stream);
    writer.commit("{}");
    std::filesystem::remove(folder_ / "data.json");  // as if another program had made it
  }

  // The run file of all steps on that batch, with `micro` rows at once.
  std::string write_run(int64_t micro) const {
    const Shape shape = rows();
    const std::string f = folder_.string();
    const std::string data =
        has_pairs() ? fmt::format(
                          "tokenizer: {0}/tokenizer.json, instructions: [{0}/pairs.jsonl], "
                          "template: '{{prompt}}{{response}}', sequence_length: {1}, "
                          "target_length: {2}",
                          golden_.string(), shape[1], reference_.entry("labels").shape[1])
                    : fmt::format(
                          "tokenizer: {0}/tokenizer.json, train: [{0}/data], "
                          "sequence_length: {1}",
                          f, shape[1] - 1);
    const std::string text = fmt::format(
        "run: {{ directory: {}/run{}, dump_gradients: {}/gradients{}.safetensors }}\n"
        "model: {{ {}, layers: 2, vocabulary_multiple: 1, context: 32 }}\n"
        "data: {{ {} }}\n"
        "batch: {{ global: {}, micro: {} }}\n"
        "optimizer: {{ learning_rate: {}, beta1: {}, beta2: {}, epsilon: {}, weight_decay: {}, "
        "clip_norm: {} }}\n"
        "schedule: {{ kind: constant, steps: {} }}\n"
        "precision: fp32\n"
        "checkpoint: {{ every_steps: 0, from: {}/imported, load: weights }}\n"
        "metrics: {{ tensorboard: false }}\n"
        "loss: {{ {} }}\n",
        f, micro, f, micro, GetParam().model, data, shape[0], micro,
        reference_.number("learning_rate"), reference_.number("beta1"), reference_.number("beta2"),
        reference_.number("epsilon"), reference_.number("weight_decay"),
        reference_.number("clip_norm"), reference_.entry("losses").shape[0], f,
        may_have_mtp() ? fmt::format("mtp_weight: {}", reference_.number("mtp_weight")) : "");
    const Path path = folder_ / fmt::format("run{}.yaml", micro);
    write_file(path, text);
    return path.string();
  }

  void expect_curve(const std::string& key, const std::string& name, int64_t micro) const {
    const std::vector<double> want = reference_.get<double>(name);
    const std::string text = read_file(folder_ / fmt::format("run{}/metrics.jsonl", micro));
    const double bound = kTimesOwn * reference_.number("fp32_distance." + name);
    size_t at = 0;
    for (const double w : want) {
      const size_t end = text.find('\n', at);
      ASSERT_NE(end, std::string::npos) << text;
      const Tree line = parse_json(text.substr(at, end - at), "metrics.jsonl");
      at = end + 1;
      ASSERT_NE(line.find(key), nullptr) << text;
      EXPECT_NEAR(std::get<double>(line.find(key)->value), w, bound * w) << key << "\n" << text;
    }
  }

  void expect_gradients(int64_t micro) const {
    const Tensors got(folder_ / fmt::format("gradients{}.safetensors", micro));
    const double bound = kTimesOwn * reference_.number("fp32_distance.gradients");
    int compared = 0;
    for (const checkpoint::SafetensorsEntry& e : reference_.entries()) {
      if (!e.name.starts_with("gradient.")) continue;
      const std::string name = e.name.substr(std::strlen("gradient."));
      EXPECT_EQ(got.entry(name).shape, e.shape) << name;
      EXPECT_LE(relative_distance(got.get<float>(name), reference_.get<float>(e.name)), bound)
          << name;
      ++compared;
    }
    // The biases of DeepSeek-V3's routers are not trained by gradients.
    const auto trained =
        std::count_if(got.entries().begin(), got.entries().end(),
                      [](const auto& e) { return !e.name.ends_with(".e_score_correction_bias"); });
    EXPECT_EQ(compared, trained);
  }

  Path golden_;
  Tensors reference_;
  Path folder_;
};

TEST_P(ModelGolden, TrainsAsPyTorchDoes) {
  if (!has_pairs()) {
    write_data();
    tessera(fmt::format("tokenizer train --vocabulary 270 --out {}/tokenizer.json {}/README.md",
                        folder_.string(), TESSERA_GOLDEN_FOLDER));
  }
  tessera(fmt::format("checkpoint import --from {} --out {}/imported", golden_.string(),
                      folder_.string()));
  for (const int64_t micro : {rows()[0], int64_t{1}}) {  // at once, and accumulated row by row
    tessera("train " + write_run(micro));
    if (HasFatalFailure()) return;
    expect_curve("loss", "losses", micro);
    expect_curve("grad_norm", "norms", micro);
    if (may_have_mtp()) expect_curve("mtp_loss", "mtp_losses", micro);
    expect_gradients(micro);
  }
}

constexpr const char* kT5 =
    "family: t5, encoder_layers: 1, hidden: 32, heads: 3, head_width: 16, vocabulary: 281, "
    "feed_forward: 96, tied_embeddings: false";
constexpr const char* kT5Tied =
    "family: t5, encoder_layers: 1, hidden: 32, heads: 3, head_width: 16, vocabulary: 281, "
    "feed_forward: 96, tied_embeddings: true";

const std::string kLikeQwen2 =
    "hidden: 48, heads: 6, kv_heads: 3, vocabulary: 281, feed_forward: 128, norm_epsilon: 1.0e-5";
const std::string kLikeHeads =  // without heads that share keys
    "hidden: 48, heads: 6, vocabulary: 281, feed_forward: 128, norm_epsilon: 1.0e-5";

const std::string kDeepseekV3 =
    "family: deepseek_v3, latent: {query_rank: 48, key_value_rank: 32, nope_width: 24, "
    "rope_width: 8, value_width: 16}, experts: 8, experts_per_token: 3, "
    "expert_feed_forward: 96, shared_feed_forward: 96, dense_layers: [0], "
    "router: {groups: 4, groups_chosen: 2, scale: 2.5, bias_rate: 0}, rope_scaling: "
    "{rope_type: yarn, factor: 8, original_max_position_embeddings: 4, mscale: 1, "
    "mscale_all_dim: 0.5}, " +
    kLikeHeads;

INSTANTIATE_TEST_SUITE_P(
    Families, ModelGolden,
    ::testing::Values(
        Family{"neox", "family: neox, hidden: 48, heads: 3, vocabulary: 288"},
        Family{"gpt2",
               "family: gpt2, hidden: 48, heads: 3, vocabulary: 275, tied_embeddings: true, "
               "gelu: tanh"},
        Family{"llama", "family: llama, hidden: 48, heads: 6, vocabulary: 281, feed_forward: 128"},
        Family{"llama-grouped",
               "family: llama, hidden: 48, heads: 6, kv_heads: 3, vocabulary: 281, "
               "feed_forward: 128, rope_theta: 500000, "
               "rope_scaling: {factor: 8, original_max_position_embeddings: 16}"},
        Family{"qwen2",
               "family: qwen2, hidden: 48, heads: 6, kv_heads: 3, vocabulary: 281, "
               "feed_forward: 128, rope_theta: 10000, norm_epsilon: 1.0e-5"},
        Family{"mixtral",
               "family: mixtral, hidden: 32, heads: 4, kv_heads: 2, vocabulary: 281, "
               "feed_forward: 80, experts: 4"},
        Family{"mistral", "family: mistral, head_width: 24, window: 8, " + kLikeQwen2},
        Family{"smollm3-window",
               "family: smollm3, hidden: 48, heads: 6, kv_heads: 1, vocabulary: 281, "
               "feed_forward: 128, norm_epsilon: 1.0e-5, no_rope_layers: [1], window: 8, "
               "window_layers: [1], rope_scaling: {rope_type: linear, factor: 4}"},
        Family{
            "phi3-longrope",
            "family: phi3, hidden: 48, heads: 6, vocabulary: 281, feed_forward: 128, "
            "rope_scaling: {rope_type: longrope, factor: 2, original_max_position_embeddings: 16, "
            "short_factor: [1, 1, 1, 1], long_factor: [1, 1.5, 2, 2.5]}"},
        Family{"qwen3",
               "family: qwen3, head_width: 32, rope_theta: 10000, window: 8, window_layers: [1], " +
                   kLikeQwen2},
        Family{"qwen3-moe",
               "family: qwen3_moe, head_width: 32, rope_theta: 10000, experts: 4, "
               "experts_per_token: 2, expert_feed_forward: 96, dense_layers: [0], "
               "router: {renormalize: false}, " +
                   kLikeQwen2},
        Family{"deepseek-v2-groups",
               "family: deepseek_v2, latent: {query_rank: 48, key_value_rank: 32, nope_width: 8, "
               "rope_width: 16, value_width: 24}, experts: 6, experts_per_token: 3, "
               "expert_feed_forward: 96, shared_feed_forward: 96, dense_layers: [0], "
               "router: {groups: 3, groups_chosen: 2, scale: 4}, rope_scaling: {rope_type: yarn, "
               "factor: 8, original_max_position_embeddings: 4, mscale: 0.707, "
               "mscale_all_dim: 0.707}, " +
                   kLikeHeads},
        Family{"deepseek-v3", kDeepseekV3},
        Family{"deepseek-v3-mtp", "mtp_depth: 2, " + kDeepseekV3},
        Family{"gpt-oss",
               "family: gpt_oss, head_width: 24, rope_theta: 10000, experts: 6, "
               "experts_per_token: 2, window: 8, window_layers: [0], "
               "rope_scaling: {rope_type: yarn, factor: 4, truncate: false, "
               "original_max_position_embeddings: 8}, " +
                   kLikeQwen2},
        Family{"olmo2", "family: olmo2, rope_theta: 10000, " + kLikeQwen2},
        Family{"gemma2",
               "family: gemma2, head_width: 24, attention_scalar: 20, window: 8, "
               "window_layers: [0], attention_soft_cap: 0.5, logit_soft_cap: 2, " +
                   kLikeQwen2},
        Family{"gemma3",
               "family: gemma3, head_width: 24, attention_scalar: 20, window: 8, "
               "window_layers: [0], rope_theta: 20000, window_rope_theta: 500, "
               "rope_scaling: {rope_type: linear, factor: 4}, " +
                   kLikeQwen2},
        Family{"t5", kT5}, Family{"t5-tied", kT5Tied}),
    [](const auto& family) {
      std::string name = family.param.name;
      std::replace(name.begin(), name.end(), '-', '_');
      return name;
    });

}  // namespace
}  // namespace tessera
