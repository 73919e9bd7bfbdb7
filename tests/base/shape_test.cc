#include "base/shape.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tessera {
namespace {

std::vector<int> counted(const Shape& shape) {
  std::vector<int> v(static_cast<size_t>(shape.elements()));
  std::iota(v.begin(), v.end(), 0);
  return v;
}

TEST(Box, CopiesTheCommonPartOnly) {
  const Shape shape{4, 5, 6};
  const std::vector<int> whole = counted(shape);
  const Box from = whole_box(shape), to{{1, 0, 2}, {4, 5, 5}}, common{{2, 1, 2}, {4, 3, 5}};
  std::vector<int> out(static_cast<size_t>(to.elements()), -1);
  copy_box(common, from, reinterpret_cast<const std::byte*>(whole.data()), to,
           reinterpret_cast<std::byte*>(out.data()), 4);
  for (int64_t i = 1; i < 4; ++i)
    for (int64_t j = 0; j < 5; ++j)
      for (int64_t k = 2; k < 5; ++k) {
        const bool inside = i >= 2 && j >= 1 && j < 3;
        const int wanted = inside ? static_cast<int>((i * 5 + j) * 6 + k) : -1;
        EXPECT_EQ(out[static_cast<size_t>(((i - 1) * 5 + j) * 3 + k - 2)], wanted);
      }
}

TEST(Box, TilesOnlyWithoutGapsAndOverlaps) {
  const Shape shape{4, 6};
  const Box a{{0, 0}, {4, 3}}, b{{0, 3}, {2, 6}}, c{{2, 3}, {4, 6}}, wide{{1, 3}, {3, 6}};
  EXPECT_TRUE(tile(std::vector<Box>{a, b, c}, shape));
  EXPECT_FALSE(tile(std::vector<Box>{a, b}, shape));
  EXPECT_FALSE(tile(std::vector<Box>{a, wide, c}, shape));  // right size, but one overlap
  EXPECT_FALSE(tile(std::vector<Box>{a, b, c, c}, shape));
  EXPECT_FALSE(tile(std::vector<Box>{{{0, 0}, {6, 4}}}, shape));
  EXPECT_TRUE(tile(std::vector<Box>{Box{}}, Shape{}));
}

TEST(Box, EveryFlatRangeIsItsBoxes) {
  for (const Shape& shape : {Shape{3, 4, 5}, Shape{7}, Shape{1, 6}, Shape{2, 1, 3}}) {
    const std::vector<int> whole = counted(shape);
    const Box all = whole_box(shape);
    for (int64_t first = 0; first <= shape.elements(); ++first)
      for (int64_t last = first; last <= shape.elements(); ++last) {
        const auto boxes = boxes_of_range(shape, first, last);
        EXPECT_LE(boxes.size(), static_cast<size_t>(2 * shape.rank() - 1));
        int64_t at = first;
        for (const Box& box : boxes) {
          ASSERT_TRUE(is_inside(box, shape));
          std::vector<int> got(static_cast<size_t>(box.elements()));
          copy_box(box, all, reinterpret_cast<const std::byte*>(whole.data()), box,
                   reinterpret_cast<std::byte*>(got.data()), 4);
          for (const int x : got) ASSERT_EQ(x, at++);
        }
        ASSERT_EQ(at, last) << to_string(shape) << first;
      }
  }
}

// Grids of many pieces, and pieces of them that are shifted against each other.
TEST(Box, L5_TilingByManyPiecesTakesTimeInProportion) {
  constexpr int64_t kPieces = 50'000;
  const Shape shape{4, kPieces};
  std::vector<Box> columns, shifted;
  for (int64_t i = 0; i < kPieces; ++i) {
    columns.push_back({{0, i}, {4, i + 1}});
    shifted.push_back({{0, i}, {i % 2 + 1, i + 1}});
    shifted.push_back({{i % 2 + 1, i}, {4, i + 1}});
  }
  EXPECT_TRUE(tile(columns, shape));
  columns[7] = columns[8];
  EXPECT_FALSE(tile(columns, shape));
  EXPECT_FALSE(tile(shifted, shape));  // more than are compared pair by pair
  shifted.resize(2000);
  EXPECT_TRUE(tile(shifted, {4, 1000}));
  shifted[11] = shifted[13];
  EXPECT_FALSE(tile(shifted, {4, 1000}));
}

TEST(Box, L5_SumsOfPiecesStayInRange) {
  const int64_t many = int64_t{1} << 56;
  EXPECT_FALSE(tile(std::vector<Box>(300, Box{{0}, {many}}), {many}));
}

}  // namespace
}  // namespace tessera
