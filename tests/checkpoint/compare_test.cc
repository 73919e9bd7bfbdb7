#include "checkpoint/compare.h"

#include <gtest/gtest.h>

#include <bit>

#include "tests/checkpoint/sample_state.h"
#include "tests/checkpoint/temporary_folder.h"

namespace tessera::checkpoint {
namespace {

TEST(Compare, EqualUpToHowTheyArePut) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  SampleState state(1);
  save(temporary.path(), sample_header(1), state.tensors());
  std::vector<StateTensor> halves;
  for (const StateTensor& t : state.tensors()) {
    if (t.shape.rank() == 0) halves.push_back(t);
    for (int64_t half = 0; t.shape.rank() > 0 && half < 2; ++half) {
      StateTensor piece = t;
      piece.begin.assign(static_cast<size_t>(t.shape.rank()), 0);
      piece.end = t.shape.dims();
      piece.begin[0] = half * t.shape[0] / 2;
      piece.end[0] = (half + 1) * t.shape[0] / 2;
      piece.data.shape[0] = t.shape[0] / 2;
      piece.data.data = t.data.f32() + half * t.shape.elements() / 2;
      halves.push_back(piece);
    }
  }
  save(temporary.path(), sample_header(2), halves);
  CheckpointReader a(temporary.path() / "1"), b(temporary.path() / "2");
  EXPECT_EQ(b.find("embed.weight")->pieces.size(), 2u);
  EXPECT_TRUE(compare(a, b).empty());
}

TEST(Compare, SaysWhatDiffersAndByHowMuch) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  SampleState one(1), two(1);
  two.values[0][100] += 0.5f;
  two.values[0][101] -= 0.25f;
  two.names[3] = "layer0.norm2.gain";
  two.shapes[1] = Shape{3, 4, 6, 24};
  save(temporary.path(), sample_header(1), one.tensors());
  save(temporary.path(), sample_header(2), two.tensors());
  CheckpointReader a(temporary.path() / "1"), b(temporary.path() / "2");
  const auto found = compare(a, b);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].name, "embed.weight");
  EXPECT_EQ(found[0].elements, 2);
  EXPECT_NEAR(found[0].largest, 0.5, 1e-6);
  EXPECT_EQ(found[1].what, "f32 [4, 3, 6, 24] and f32 [3, 4, 6, 24]");
  EXPECT_EQ(found[2].what, "only in the first");
  EXPECT_EQ(found[3].what, "only in the second");
}

// Tensors of different floating-point types are compared by value: only rounded elements differ.
TEST(Compare, SaysByHowMuchRoundedValuesDiffer) {
  TemporaryFolder temporary(TemporaryFolder::quick());
  std::vector<float> exact = {1, 1.0f + 1.0f / 512, -2, 0.5f};
  std::vector<uint16_t> rounded;  // bf16: the upper half of the bits of f32
  for (const float x : exact)
    rounded.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16));
  StateTensor t;
  t.name = "w";
  t.shape = Shape{4};
  t.data = {exact.data(), DType::kF32, t.shape};
  save(temporary.path(), sample_header(1), {t});
  t.dtype = DType::kBF16;
  t.data = {rounded.data(), DType::kBF16, t.shape};
  save(temporary.path(), sample_header(2), {t});
  CheckpointReader a(temporary.path() / "1"), b(temporary.path() / "2");
  const auto found = compare(a, b);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].what, "");
  EXPECT_EQ(found[0].types, "f32 and bf16");
  EXPECT_EQ(found[0].elements, 1);
  EXPECT_EQ(found[0].largest, 1.0 / 512);
  EXPECT_TRUE(compare(b, b).empty());
}

}  // namespace
}  // namespace tessera::checkpoint
