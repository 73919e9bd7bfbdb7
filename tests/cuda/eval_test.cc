// Scoring and writing on a CUDA device against the CPU.
#include "eval/generate.h"
#include "tests/checkpoint/temporary_folder.h"
#include "tests/cuda/device.h"
#include "tests/eval/fresh_model.h"

namespace tessera {
namespace {

constexpr double kRounding = 2e-5;  // of logits, whose sums differ in their order

class CudaEval : public testing::OnGpu {
 protected:
  eval::ModelOptions there() const { return {.gpu = features_}; }
  checkpoint::TemporaryFolder folder_;
};

std::vector<int32_t> some_tokens(int32_t n) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < n; ++i) tokens.push_back((i * 7 + 3) % 96);
  return tokens;
}

std::vector<int32_t> some_source(model::Family family) {
  if (!model::rule_of(family).has_encoder) return {};
  return {5, 9, 81, 2, 44, 7, 1, 0, 0};  // padded
}

TEST_F(CudaEval, LogitsAreTheCpus) {
  for (const model::Family family : every_family()) {
    checkpoint::CheckpointReader reader(
        eval::fresh_model(folder_.path() / name_of_entry(family), train::tiny(family)));
    const std::vector<int32_t> tokens = some_tokens(40), rows = some_source(family);
    std::vector<int32_t> source = rows;
    source.insert(source.end(), rows.begin(), rows.end());
    const auto length = static_cast<int64_t>(rows.size());
    eval::LogitsModel here(reader, 2, 20, {}, length), device(reader, 2, 20, there(), length);
    const std::span<const float> want = here.read(tokens, source);
    // The second reading becomes a graph, the third is its launch.
    for (int times = 0; times < 3; ++times) {
      const std::span<const float> got = device.read(tokens, source);
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < got.size(); ++i)
        ASSERT_NEAR(got[i], want[i], kRounding) << name_of_entry(family) << ' ' << i;
    }
  }
}

TEST_F(CudaEval, TokenByToken) {
  for (const model::Family family : every_family()) {
    checkpoint::CheckpointReader reader(
        eval::fresh_model(folder_.path() / name_of_entry(family), train::tiny(family)));
    const std::vector<int32_t> tokens = some_tokens(20), source = some_source(family);
    eval::Decoder here(reader, {}, source), device(reader, there(), source);
    for (const size_t prompt : {1u, 18u}) {
      here.forget();
      device.forget();
      for (size_t t = 0, n = prompt; t < tokens.size(); t += n, n = 1) {
        const std::span<const float> want = here.read(std::span(tokens).subspan(t, n));
        const std::span<const float> got = device.read(std::span(tokens).subspan(t, n));
        for (size_t v = 0; v < want.size(); ++v)
          ASSERT_NEAR(got[v], want[v], kRounding) << name_of_entry(family) << " token " << t;
      }
    }
  }
}

TEST_F(CudaEval, WritesTheSameText) {
  checkpoint::CheckpointReader reader(
      eval::fresh_model(folder_.path(), train::tiny(model::Family::kLlama)));
  eval::GenerateOptions o;
  o.max_tokens = 12;
  o.sampling.choice.temperature = 0;
  eval::Decoder here(reader, {}), device(reader, there());
  EXPECT_EQ(eval::generate(here, some_tokens(5), o, {}),
            eval::generate(device, some_tokens(5), o, {}));
}

}  // namespace
}  // namespace tessera
