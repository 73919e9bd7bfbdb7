#include "runtime/initialise.h"

#include <gtest/gtest.h>

#include <vector>

namespace tessera {
namespace {

int64_t product(const Shape& s) { return s.elements(); }

struct Case {
  Shape shape;
  std::vector<std::pair<AxisKind, int>> splits;  // axis → dimension
};

// Every layout of a value, put together again, is the value.
TEST(Initialise, EveryRankHasItsPartOfTheSameValue) {
  Mesh mesh;
  mesh[AxisKind::kShard] = 3;
  mesh[AxisKind::kTensorKv] = 2;
  mesh[AxisKind::kTensor] = 2;
  const Case cases[] = {{{12, 5, 7}, {}},
                        {{13, 6}, {{AxisKind::kTensor, 0}}},
                        {{13, 6}, {{AxisKind::kTensor, 1}}},
                        {{7, 9, 4}, {{AxisKind::kTensor, 1}, {AxisKind::kShard, 0}}},
                        {{12, 3, 5}, {{AxisKind::kTensorKv, 0}, {AxisKind::kTensor, 0}}},
                        {{1, 8, 6, 2}, {{AxisKind::kTensor, 2}, {AxisKind::kTensorKv, 1}}},
                        {{301}, {{AxisKind::kTensor, 0}}},
                        {{}, {}}};
  for (const Case& c : cases) {
    Value v;
    v.shape = c.shape;
    for (const auto& [axis, dim] : c.splits)
      v.sharding.place[static_cast<size_t>(axis)] = static_cast<int8_t>(dim);
    localise(v, mesh);
    const Extents all = {std::vector<int64_t>(static_cast<size_t>(c.shape.rank()), 0),
                         c.shape.dims()};
    for (const Initial initial : {Initial{0.5, 0}, Initial{0, 3}}) {
      std::vector<float> whole(static_cast<size_t>(product(c.shape)), -1);
      initialise_part({whole.data(), DType::kF32, c.shape}, c.shape, all, initial, 99);
      std::vector<int> found(whole.size(), 0);
      for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
        const Extents box = extents_of(v, mesh, coordinates_of(mesh, rank));
        std::vector<float> part(static_cast<size_t>(product(v.local())), -1);
        initialise_part({part.data(), DType::kF32, v.local()}, c.shape, box, initial, 99);
        for (size_t i = 0; i < part.size(); ++i) {
          // The element's place, dimension by dimension.
          auto rest = static_cast<int64_t>(i);
          int64_t at = 0, step = 1;
          bool padding = false;
          for (int d = c.shape.rank() - 1; d >= 0; --d) {
            const auto k = static_cast<size_t>(d);
            const int64_t x = box.begin[k] + rest % v.local()[d];
            rest /= v.local()[d];
            padding = padding || x >= box.end[k];
            at += x * step;
            step *= c.shape[d];
          }
          if (!padding) ++found[static_cast<size_t>(at)];
          ASSERT_EQ(part[i], padding ? 0.0f : whole[static_cast<size_t>(at)])
              << to_string(c.shape) << " rank " << rank << " element " << i;
        }
      }
      for (const int times : found) ASSERT_GE(times, 1) << to_string(c.shape);
    }
  }
}

}  // namespace
}  // namespace tessera
