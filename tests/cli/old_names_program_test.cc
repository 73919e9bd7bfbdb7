// Run directories that a version with the old names of keys wrote, and old names on the command
// line.
#include "tests/checkpoint/mutated_index.h"
#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

constexpr const char* kRun = R"(
run: { directory: r, seed: 3, threads: 1 }
model: { family: llama, layers: 2, hidden: 32, heads: 4, vocabulary: 257, vocabulary_multiple: 1,
         context: 64, feed_forward: 128, rope_theta: 50000,
         rope_scaling: { factor: 8, original_max_position_embeddings: 32 } }
data: { tokenizer: t.json, train: [d], sequence_length: 32, intra_document_masking: true }
batch: { global: 4, micro: 2, warmup_sizes: [2], warmup_steps_per_size: 1 }
optimizer: { kind: adafactor, learning_rate: 1.0e-3, beta1: 0.9, clip_threshold: 0.5,
             groups: [{ match: ['*norm*'], kind: sgd, weight_decay_applies_to: all }] }
schedule: { kind: cosine, steps: 4, warmup_steps: 1, min_lr_ratio: 0.1, min_lr_mode: clamp }
precision: bf16
compiler: { grad_accum_dtype: weight, fuse_grad_accumulation: false, dropout_masks: store }
checkpoint: { every_steps: 2 }
)";

// Names of keys and values, with those of the old program.
struct Name {
  std::string present, old;
};
const Name kKeys[] = {{"intra_document_masking", "documents_apart"},
                      {"warmup_steps_per_size", "ramp_steps"},
                      {"warmup_sizes", "ramp"},
                      {"min_lr_ratio", "floor"},
                      {"min_lr_mode", "floor_rule"},
                      {"weight_decay_applies_to", "decay"},
                      {"moment_dtype", "moments"},
                      {"clip_threshold", "update_clip"},
                      {"scale_parameter", "scale_by_weight"},
                      {"min_parameter_scale", "least_scale"},
                      {"rotary_pct", "rotary_share"},
                      {"rope_theta", "rotary_base"},
                      {"rope_scaling", "rotary_scale"},
                      {"low_freq_factor", "low"},
                      {"high_freq_factor", "high"},
                      {"original_max_position_embeddings", "context"},
                      {"kernel_selection", "products"},
                      {"attention_scores_dtype", "scores"},
                      {"selective_recompute", "selective"},
                      {"full_recompute", "again"},
                      {"dropout_masks", "masks"},
                      {"deallocate_pipeline_outputs", "sent"},
                      {"grad_accum_dtype", "gradients"},
                      {"grad_reduce_dtype", "communication"},
                      {"fuse_grad_accumulation", "accumulate"},
                      {"gemm_dtype", "products"}};
const Name kValues[] = {{"long_examples: error", "long_examples: refuse"},
                        {"products: autotune", "products: measured"},
                        {"masks: store", "masks: kept"},
                        {"sent: true", "sent: dropped"},
                        {"gradients: weight", "gradients: half"},
                        {"communication: accum", "communication: sums"},
                        {"accumulate: false", "accumulate: apart"},
                        {"products: compute", "products: stored"}};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// The YAML that the program wrote, as the old program wrote it.
std::string with_old_names(std::string yaml) {
  const size_t newer = yaml.find("  window_rope_theta:");  // which the old program did not have
  yaml.erase(newer, yaml.find('\n', newer) + 1 - newer);
  for (const Name& n : kKeys) {
    const std::string before = yaml;
    yaml = replaced(yaml, n.present + ":", n.old + ":");
    EXPECT_NE(yaml, before) << n.present;
  }
  yaml = replaced(yaml, "  min: 1", "  least: 1");
  yaml = replaced(yaml, "    rope_type: llama3\n", "");
  for (const Name& n : kValues) {
    EXPECT_NE(yaml.find(n.present), std::string::npos) << n.present;
    yaml = replaced(yaml, n.present, n.old);
  }
  return yaml;
}

class OldNames : public ProgramFolder {
 protected:
  OldNames() { put("run.yaml", kRun); }

  std::string good(const std::string& arguments) const {
    const ProgramResult r = run(arguments);
    EXPECT_EQ(r.code, 0) << arguments << "\n" << r.out << r.err;
    return r.out + r.err;
  }
  void fails(const std::string& arguments, int code, const std::string& part) const {
    const ProgramResult r = run(arguments);
    EXPECT_EQ(r.code, code) << arguments << "\n" << r.out << r.err;
    EXPECT_NE((r.out + r.err).find(part), std::string::npos) << r.out << r.err;
  }
  // Gives the checkpoint and run.yaml of the directory the names of the old program.
  void age(const std::string& directory, int64_t step) const {
    const std::string old = with_old_names(get(directory + "/run.yaml"));
    put(directory + "/run.yaml", old);
    const std::string name = fmt::format("{}/checkpoints/{}/index.json", directory, step);
    Tree index = parse_json(get(name), name);
    Tree config = parse_yaml(old, "the old configuration");
    index.set("model", *config.find("model"));
    index.set("config", std::move(config));
    auto& members = std::get<Tree::Members>(index.value);
    std::erase_if(members, [](const auto& m) { return m.first == "xxh3"; });
    put(name, checkpoint::IndexMutator::with_checksum(to_json(index)));
  }
};

// A run that was stopped under the old names ends with the same weights as one that was not
// stopped.
TEST_F(OldNames, ARunDirectoryResumesAndItsCheckpointIsRead) {
  good("train run.yaml run.directory=whole");
  good("train run.yaml run.stop_after_steps=2");
  age("r", 2);
  EXPECT_NE(get("r/run.yaml").find("rotary_base: 50000"), std::string::npos);
  EXPECT_NE(get("r/checkpoints/2/index.json").find("\"update_clip\":0.5"), std::string::npos);

  good("eval r d");
  good("generate r --prompt the --max-tokens 2");
  good("checkpoint ls r");
  good("train r run.stop_after_steps=0");
  EXPECT_EQ(read_file(folder_ / "r/checkpoints/4/pieces-0.bin"),
            read_file(folder_ / "whole/checkpoints/4/pieces-0.bin"));
  // The resumed run wrote the present names.
  EXPECT_NE(get("r/checkpoints/4/index.json").find("\"clip_threshold\":0.5"), std::string::npos);
  EXPECT_EQ(get("r/checkpoints/4/index.json").find("update_clip"), std::string::npos);
}

// The run file of a person is not translated, and a changed value is noticed.
TEST_F(OldNames, ARunFileOfAPersonIsAnErrorAndAChangeIsReported) {
  good("train run.yaml run.stop_after_steps=2");
  age("r", 2);
  const std::string old = get("r/run.yaml");
  put("mine.yaml", old.substr(old.find('\n') + 1));
  fails("train mine.yaml", 1, "(renamed): use ");
  fails("train r data.intra_document_masking=false", 1,
        "data.intra_document_masking was true, is now false");
}

TEST_F(OldNames, OldOptionsAndForeignOnesNameTheirSuccessors) {
  fails("launch run.yaml -n 1 --silence 5", 2,
        "'--silence' is not an option (renamed): use --heartbeat-timeout");
  fails("launch run.yaml -n 1 --on-loss=stop", 2,
        "'--on-loss' is not an option (renamed): use "
        "--on-failure");
  fails("tune run.yaml --at-once 2", 2, "(renamed): use --parallel");
  fails("submit run.yaml --nodes 1 --leave 20", 2, "(renamed): use --grace");
  fails("train run.yaml --max-steps 100", 2,
        "'--max-steps' is not an option (Hugging Face Trainer, axolotl): use schedule.steps. Write "
        "run-file keys without --: KEY=VALUE");
  fails("train run.yaml --lr=1e-3", 2, "use optimizer.learning_rate");
  fails("train run.yaml --tensor-model-parallel-size 2", 2, "(Megatron-LM): use layout.tensor");
  fails("train run.yaml max_steps=5", 1, "use schedule.steps");
  fails("train run.yaml schedule.floor=0.2", 1, "(renamed): use schedule.min_lr_ratio");
  // Of a command without keys of a run file.
  fails("tokenizer info t.json --max-steps 5", 2, "unknown argument '--max-steps'.");
}

}  // namespace
}  // namespace tessera::cli
