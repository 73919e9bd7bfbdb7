// Packing of heads for latent attention against plain loops, and attention with values that are
// narrower than keys.
#include "kernels/latent_heads.h"

#include "base/error.h"
#include "kernels/attention.h"
#include "tests/kernels/attention_reference.h"

namespace tessera::kernels {
namespace {

struct LatentSizes {
  int64_t b = 1, t = 1, heads = 1, own = 0, shared = 2, value = 1;

  int64_t d() const { return own + shared; }
  int64_t lowered() const { return own + value; }
  int64_t rows() const { return b * t * heads; }
  // The place among pairs of number k of the shared part, which is packed as halves.
  int64_t pair(int64_t k) const { return k < shared / 2 ? 2 * k : 2 * k - shared + 1; }
};

void compare(const LatentSizes& z, DType type, int threads) {
  SCOPED_TRACE(fmt::format("B {} T {} H {} N {} R {} V {} {}", z.b, z.t, z.heads, z.own, z.shared,
                           z.value, name_of(type)));
  const Array q = Array::random({z.b, z.t, z.heads, z.d()}, 1, type);
  const Array e = Array::random({z.b, z.t, z.heads, z.lowered()}, 2, type);
  const Array s = Array::random({z.b, z.t, z.shared}, 3, type);
  const Array packed = Array::full({z.b, z.t, z.heads, 3, z.d()}, 9, type);
  compute(LatentHeadsArgs{q, e, s, packed}, threads);
  const Array back_q(q.shape(), type), back_e(e.shape(), type), back_s(s.shape(), type);
  compute(LatentHeadsGradArgs{packed, back_q, back_e, back_s}, threads);
  for (int64_t row = 0; row < z.rows(); ++row) {
    const int64_t token = row / z.heads;
    for (int64_t k = 0; k < z.d(); ++k) {
      const bool turned = k < z.shared;
      const int64_t from = turned ? z.own + z.pair(k) : k - z.shared, at = row * 3 * z.d() + k;
      ASSERT_EQ(packed.at(at), q.at(row * z.d() + from));
      ASSERT_EQ(packed.at(at + z.d()), turned ? s.at(token * z.shared + z.pair(k))
                                              : e.at(row * z.lowered() + k - z.shared));
      ASSERT_EQ(packed.at(at + 2 * z.d()), k < z.value ? e.at(row * z.lowered() + z.own + k) : 0.0);
    }
  }
  // What was packed comes back, the shared part once per head.
  EXPECT_TRUE(back_q.same_bits(q));
  EXPECT_TRUE(back_e.same_bits(e));
  for (int64_t i = 0; i < s.size(); ++i)
    ASSERT_NEAR(back_s.at(i), static_cast<double>(z.heads) * s.at(i),
                2 * tolerance(type) * static_cast<double>(z.heads));
}

TEST(LatentHeads, ArePackedAndSeparated) {
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    compare({1, 1, 1, 0, 2, 1}, type, 1);
    compare({2, 5, 3, 4, 6, 3}, type, 1);
    compare({1, 7, 4, 8, 4, 12}, type, 2);
    compare({1, 3, 2, 3, 140, 5}, type, 2);  // more than a block of sums
  }
}

// Sets the numbers of values from `width` on to zero; values are the last of the slots.
Array with_narrow_values(const AttentionSizes& z, int64_t width) {
  Array qkv = Array::random(z.qkv(), 1);
  const int64_t slots = z.g + 2;
  for (int64_t i = 0; i < qkv.size(); ++i)
    if (i / z.d % slots == slots - 1 && i % z.d >= width) qkv.set(i, 0);
  return qkv;
}

// Copies the first `width` numbers of rows, or adds zeros to them.
Array with_width(const Array& a, int64_t width) {
  std::vector<int64_t> dims = a.shape().dims();
  const int64_t had = dims.back();
  dims.back() = width;
  Array out((Shape(dims)));
  for (int64_t i = 0; i < out.size(); ++i)
    out.set(i, i % width < had ? a.at(i / width * had + i % width) : 0);
  return out;
}

std::vector<double> numbers(const Array& a) {
  std::vector<double> all;
  for (int64_t i = 0; i < a.size(); ++i) all.push_back(a.at(i));
  return all;
}

// Narrow values are the same as values whose rest is zero.
void compare_widths(const AttentionSizes& z, int64_t width) {
  SCOPED_TRACE(fmt::format("T {} KV {} G {} D {} V {}", z.t, z.kv, z.g, z.d, width));
  const Array qkv = with_narrow_values(z, width);
  const Array d_narrow = Array::random({z.b, z.t, z.heads(), width}, 2);
  const Array d_out = with_width(d_narrow, z.d);
  const Array out(z.out()), narrow(d_narrow.shape()), lse({z.b, z.heads(), z.t});
  const Array d_qkv(z.qkv()), d_got = Array::full(z.qkv(), 9);
  compute(AttentionArgs{qkv, out, lse, 0.3f}, 2);
  compute(AttentionGradArgs{qkv, out, lse, d_out, d_qkv, 0.3f}, 2);
  compute(AttentionArgs{qkv, narrow, lse, 0.3f}, 2);
  compute(AttentionGradArgs{qkv, narrow, lse, d_narrow, d_got, 0.3f}, 2);
  EXPECT_LT(distance(narrow, numbers(with_width(out, width))), 1e-6);
  Array expected = d_qkv;  // the gradient of zeros that the narrow form does not have
  const int64_t slots = z.g + 2;
  for (int64_t i = 0; i < expected.size(); ++i)
    if (i / z.d % slots == slots - 1 && i % z.d >= width) {
      expected.set(i, 0);
      ASSERT_EQ(d_got.at(i), 0);
    }
  EXPECT_LT(distance(d_got, numbers(expected)), 1e-6);
}

TEST(LatentHeads, ValuesMayBeNarrowerThanKeys) {
  for_every_target([] {
    compare_widths({2, 70, 2, 1, 24}, 16);
    compare_widths({1, 131, 1, 2, 40}, 8);
    compare_widths({1, 65, 2, 1, 192}, 128);
    compare_widths({1, 33, 2, 1, 24}, 24);
    compare_widths({1, 20, 3, 1, 12}, 5);
  });
}

// One token at a time, with a cache, equals all at once.
TEST(LatentHeads, NarrowValuesInACache) {
  const AttentionSizes z{1, 9, 2, 1, 24};
  const int64_t width = 16;
  const Array qkv = with_narrow_values(z, width);
  const Array out({z.b, z.t, z.heads(), width}), lse({z.b, z.heads(), z.t});
  compute(AttentionArgs{qkv, out, lse, 0.3f});
  const Array cache({1, 12, 2, z.kv, z.d}), row({1, 1, z.heads(), width});
  const int64_t token = z.kv * 3 * z.d;
  for (int32_t at = 0; at < z.t; ++at) {
    CachedAttentionArgs a;
    a.qkv = {qkv.as<float>() + at * token, DType::kF32, {1, 1, z.kv, 3, z.d}};
    a.cache = cache;
    a.start = &at;
    a.out = row;
    a.scale = 0.3f;
    compute(a);
    for (int64_t i = 0; i < row.size(); ++i)
      ASSERT_NEAR(row.at(i), out.at(at * row.size() + i), 1e-6);
  }
}

}  // namespace
}  // namespace tessera::kernels
