#include "runtime/initialize.h"

#include <gtest/gtest.h>

#include <vector>

namespace tessera::runtime {
namespace {

int64_t product(const Shape& s) { return s.elements(); }

struct Case {
  Shape shape;
  std::vector<std::pair<AxisKind, int>> splits;  // axis → dimension
};

// Every layout of a value, put together again, is the value.
TEST(Initialize, EveryRankHasItsPartOfTheSameValue) {
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
    for (const auto& [axis, dim] : c.splits) v.sharding.place[axis] = static_cast<int8_t>(dim);
    localise(v, mesh);
    const GlobalBox all = {std::vector<int64_t>(static_cast<size_t>(c.shape.rank()), 0),
                           c.shape.dims()};
    for (const Initial initial : {Initial{0.5, 0}, Initial{0, 3}}) {
      std::vector<float> whole(static_cast<size_t>(product(c.shape)), -1);
      initialize_part({whole.data(), DType::kF32, c.shape}, c.shape, all, initial, 99, 2);
      std::vector<int> found(whole.size(), 0);
      for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
        const GlobalBox box = global_box_of(v, mesh, coordinates_of(mesh, rank));
        std::vector<float> part(static_cast<size_t>(product(v.local())), -1);
        initialize_part({part.data(), DType::kF32, v.local()}, c.shape, box, initial, 99, 2);
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

// Parts of grouped heads, on ranks that have copies of the key/value heads, start as the one weight
// that checkpoints know.
TEST(Initialize, CopiesOfHeadsHaveTheirPartsOfOneWeight) {
  struct Heads {
    int64_t K, G, over_kv, copies;
  };
  for (const Heads h : {Heads{2, 4, 2, 2}, {1, 4, 1, 4}, {6, 2, 2, 2}, {4, 3, 2, 3}}) {
    Mesh mesh;
    mesh[AxisKind::kTensorKv] = h.over_kv;
    mesh[AxisKind::kTensor] = h.copies;
    const Shape whole{h.K, h.G + 2, 3};
    std::vector<float> truth(static_cast<size_t>(product(whole)));
    const GlobalBox all = {{0, 0, 0}, whole.dims()};
    initialize_part({truth.data(), DType::kF32, whole}, whole, all, {0.5, 0}, 7, 2);

    Value queries, pairs;
    queries.shape = {h.K * h.copies, h.G / h.copies, 3};
    queries.parent = {"heads", whole, 0, h.copies};
    pairs.shape = {h.K, 2, 3};
    pairs.parent = {"heads", whole, h.G, 1};
    for (Value* v : {&queries, &pairs}) v->sharding.place[AxisKind::kTensorKv] = 0;
    queries.sharding.place[AxisKind::kTensor] = 0;
    pairs.sharding.place[AxisKind::kTensor] = kShared;
    std::vector<int64_t> found(truth.size());
    for (Value* v : {&queries, &pairs}) {
      localise(*v, mesh);
      for (int64_t rank = 0; rank < mesh.ranks(); ++rank) {
        const GlobalBox place = global_box_of(*v, mesh, coordinates_of(mesh, rank));
        const Box box = whole_box(v->local());
        int64_t elements = 0;
        for (const CheckpointBox& k : checkpoint_boxes(*v, place, box)) {
          const Shape shape = k.part.extents();
          std::vector<float> part(static_cast<size_t>(product(shape)));
          initialize_part({part.data(), DType::kF32, shape}, whole, k.known, {0.5, 0}, 7, 2);
          const int64_t of_row = 3 * v->shape[1];
          for (size_t i = 0; i < part.size(); ++i) {
            const int64_t in_row = static_cast<int64_t>(i) % of_row;
            const int64_t row = place.begin[0] + k.part.begin[0] + static_cast<int64_t>(i) / of_row;
            // Query g of group k, or its key or value.
            const int64_t head = row * v->shape[1] + in_row / 3;
            const int64_t group = v == &queries ? head / h.G : row;
            const int64_t slot = v == &queries ? head % h.G : h.G + in_row / 3;
            const auto at = static_cast<size_t>((group * (h.G + 2) + slot) * 3 + in_row % 3);
            ASSERT_EQ(part[i], truth[at]);
            ++found[at];
          }
          elements += k.part.elements();
        }
        EXPECT_EQ(elements, v->local().elements());
      }
    }
    for (size_t i = 0; i < found.size(); ++i) {
      const bool is_query = static_cast<int64_t>(i) / 3 % (h.G + 2) < h.G;
      EXPECT_EQ(found[i], is_query ? 1 : h.copies) << i;
    }
  }
}

}  // namespace
}  // namespace tessera::runtime
