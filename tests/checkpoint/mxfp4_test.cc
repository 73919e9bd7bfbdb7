// MXFP4 numbers, and gpt-oss folders whose experts are stored in them.
#include "checkpoint/mxfp4.h"

#include <cmath>
#include <cstring>

#include "tests/checkpoint/hf_folder.h"

namespace tessera::checkpoint {
namespace {

float at(const std::vector<std::byte>& bf16, size_t i) {
  BF16 x;
  std::memcpy(&x, bf16.data() + 2 * i, 2);
  return static_cast<float>(x);
}

std::vector<std::byte> bytes(std::initializer_list<int> list) {
  std::vector<std::byte> out;
  for (const int x : list) out.push_back(static_cast<std::byte>(x));
  return out;
}

TEST(Mxfp4, HasSixteenNumbersWithTheFirstInTheLowerHalf) {
  std::vector<std::byte> blocks;
  for (int i = 0; i < 16; ++i)
    blocks.push_back(static_cast<std::byte>((2 * i + 1) % 16 * 16 + 2 * i % 16));
  std::vector<std::byte> out(64);
  decode_mxfp4(blocks, bytes({127}), 0, 32, out.data());
  const float wanted[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(at(out, i), i % 16 < 8 ? wanted[i % 8] : -wanted[i % 8]) << i;
    EXPECT_EQ(std::signbit(at(out, i)), i % 16 >= 8) << i;
  }
}

TEST(Mxfp4, EachBlockHasItsScale) {
  std::vector<std::byte> blocks(48, std::byte{0x22});  // all 1
  const auto scales = bytes({127, 130, 0});
  std::vector<std::byte> out(2 * 96), middle(2 * 40);
  decode_mxfp4(blocks, scales, 0, 96, out.data());
  EXPECT_EQ(at(out, 31), 1);
  EXPECT_EQ(at(out, 32), 8);
  EXPECT_EQ(at(out, 95), std::ldexp(1.0f, -127));
  decode_mxfp4(blocks, scales, 25, 40, middle.data());
  EXPECT_EQ(std::memcmp(middle.data(), out.data() + 50, 80), 0);
  decode_mxfp4(blocks, bytes({255, 254, 127}), 0, 64, out.data());
  EXPECT_TRUE(std::isnan(at(out, 0)));
  EXPECT_EQ(at(out, 40), std::ldexp(1.0f, 127));
}

constexpr int64_t kExperts = 3, kWidth = 64, kInner = 32;

model::ModelConfig model_of_experts() {
  model::ModelConfig m = small(model::Family::kGptOss);
  m.hidden = kWidth;
  m.feed_forward = kInner;
  m.experts = kExperts;
  m.experts_per_token = 2;
  return m;
}

std::byte block_byte(int64_t i) { return static_cast<std::byte>(i * 37 % 256); }
std::byte scale_byte(int64_t i) { return static_cast<std::byte>(120 + i % 13); }

// Writes the folder of a model with random numbers in MXFP4. `short_scales`: with a wrong shape.
void write_mxfp4(const Path& folder, const model::ModelConfig& m, bool short_scales = false) {
  std::filesystem::create_directories(folder);
  std::vector<SafetensorsPlan> plans;
  const std::vector<model::HfTensor> parts = model::hf_tensors(m);
  for (const auto& group : model::by_theirs(parts)) {
    const model::HfTensor& t = group[0];
    if (!t.theirs.ends_with("_proj")) {
      plans.push_back({t.theirs, DType::kBF16, t.their_shape});
      continue;
    }
    const int64_t in = t.their_shape[1], out = t.their_shape[2];
    plans.push_back({t.theirs + "_blocks", DType::kU8, {t.their_shape[0], out, in / 32, 16}});
    plans.push_back({t.theirs + "_scales",
                     DType::kU8,
                     {t.their_shape[0], out, in / 32 + (short_scales ? 1 : 0)}});
  }
  write_safetensors(folder / "model.safetensors", plans, [&](size_t i) -> FillPiece {
    if (plans[i].dtype != DType::kU8) return pattern(i, DType::kBF16);
    const bool scales = plans[i].name.ends_with("_scales");
    return [scales](int64_t first, int64_t count, std::byte* to) {
      for (int64_t n = first; n < first + count; ++n)
        to[n - first] = scales ? scale_byte(n) : block_byte(n);
    };
  });
  Tree config = model::hf_config_of_model(m, std::nullopt, DType::kBF16);
  Tree method = Tree::object();
  method.set("quant_method", Tree(std::string("mxfp4")));
  config.set("quantization_config", std::move(method));
  write_file(folder / "config.json", to_json(config, 2));
}

// The number of row `row` and column `column` of all experts' rows of `width`.
float number(int64_t row, int64_t column, int64_t width) {
  constexpr float kNumbers[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  const int64_t i = row * width + column;
  const auto byte = std::to_integer<unsigned>(block_byte(i / 2));
  const unsigned bits = i % 2 == 0 ? byte % 16 : byte / 16;
  const float x =
      kNumbers[bits % 8] * std::ldexp(1.0f, std::to_integer<int>(scale_byte(i / 32)) - 127);
  return bits < 8 ? x : -x;
}

TEST_F(HfFolder, ExpertsInMxfp4AreReadAndImported) {
  const model::ModelConfig m = model_of_experts();
  write_mxfp4(at("hf"), m);
  const HfImport made = import_hf(at("hf"), at("checkpoint"), "0.1.0");
  EXPECT_EQ(made.parameters, model::parameter_count(m));
  for (const char* source : {"hf", "checkpoint"}) {
    CheckpointReader reader(at(source));
    std::vector<float> up(kExperts * kInner * 2 * kWidth), down(kExperts * kWidth * kInner);
    reader.read("layer1.mlp.experts.up.weight",
                {up.data(), DType::kF32, {kExperts, kInner, 2, kWidth}});
    reader.read("layer1.mlp.experts.down.weight",
                {down.data(), DType::kF32, {kExperts, kWidth, kInner}});
    for (int64_t row = 0; row < kExperts * kInner * 2; ++row)
      for (int64_t c = 0; c < kWidth; ++c)
        ASSERT_EQ(up[static_cast<size_t>(row * kWidth + c)], number(row, c, kWidth));
    for (int64_t row = 0; row < kExperts * kWidth; ++row)
      for (int64_t c = 0; c < kInner; ++c)
        ASSERT_EQ(down[static_cast<size_t>(row * kInner + c)], number(row, c, kInner));
    // A box within two experts.
    std::vector<float> box(2 * 3 * 1 * 5);
    const std::vector<int64_t> begin{1, 4, 1, 30}, end{3, 7, 2, 35};
    reader.read("layer0.mlp.experts.up.weight", begin, end,
                {box.data(), DType::kF32, {2, 3, 1, 5}});
    for (int64_t i = 0; i < 30; ++i) {
      const int64_t e = 1 + i / 15, unit = 4 + i / 5 % 3;
      ASSERT_EQ(box[static_cast<size_t>(i)],
                number((e * kInner + unit) * 2 + 1, 30 + i % 5, kWidth));
    }
  }
}

TEST_F(HfFolder, AWrongShapeOfScalesIsNamedOnce) {
  write_mxfp4(at("hf"), model_of_experts(), true);
  const std::string why = import_error();
  const size_t first = why.find("layers.0.mlp.experts.gate_up_proj_scales: is U8 [3, 64, 3]");
  ASSERT_NE(first, std::string::npos) << why;
  EXPECT_EQ(why.find("layers.0.mlp.experts.gate_up_proj_scales", first + 1), std::string::npos);
}

}  // namespace
}  // namespace tessera::checkpoint
