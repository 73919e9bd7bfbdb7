#include "kernels/head_norm.h"

#include "base/error.h"
#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

constexpr double kEpsilon = 1e-5;

struct Sizes {
  int64_t b, t, kv, g, d;
  Shape qkv() const { return {b, t, kv, g + 2, d}; }
};

// The indices of an element of packed qkv.
struct Element {
  int64_t token, group, slot, c;
};
Element element_of(const Sizes& z, int64_t i) {
  const int64_t slots = z.g + 2;
  return {i / (z.d * slots * z.kv), i / (z.d * slots) % z.kv, i / z.d % slots, i % z.d};
}

// y, the norm of the tokens' queries and keys, as a function of x in double.
struct Reference {
  Sizes z;
  std::vector<double> query_gain, key_gain;
  bool whole;

  double gain(const Element& e) const {
    const bool key = e.slot == z.g;
    const int64_t head = key ? e.group : e.group * z.g + e.slot;
    return (key ? key_gain : query_gain)[static_cast<size_t>((whole ? head * z.d : 0) + e.c)];
  }
  // The elements that have the mean of their squares in common.
  bool together(const Element& a, const Element& b) const {
    if (a.token != b.token || (a.slot == z.g) != (b.slot == z.g) || b.slot > z.g) return false;
    return whole || (a.group == b.group && a.slot == b.slot);
  }
  double root(const std::vector<double>& x, const Element& e) const {
    double sum = 0, count = 0;
    for (size_t i = 0; i < x.size(); ++i)
      if (together(e, element_of(z, static_cast<int64_t>(i)))) {
        sum += x[i] * x[i];
        ++count;
      }
    return 1 / std::sqrt(sum / count + kEpsilon);
  }
  std::vector<double> y(const std::vector<double>& x) const {
    std::vector<double> out = x;
    for (size_t i = 0; i < x.size(); ++i) {
      const Element e = element_of(z, static_cast<int64_t>(i));
      if (e.slot <= z.g) out[i] = x[i] * root(x, e) * gain(e);
    }
    return out;
  }
};

std::vector<double> numbers(const Array& a, double more = 0) {
  std::vector<double> out;
  for (int64_t i = 0; i < a.size(); ++i) out.push_back(a.at(i) + more);
  return out;
}

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Central differences of dy · y in double.
template <class F>
std::vector<double> differences(std::vector<double> x, const F& loss) {
  constexpr double kStep = 1e-5;
  std::vector<double> slopes;
  for (double& e : x) {
    const double kept = e;
    e = kept + kStep;
    const double above = loss(x);
    e = kept - kStep;
    slopes.push_back((above - loss(x)) / (2 * kStep));
    e = kept;
  }
  return slopes;
}

void compare(const Sizes& z, DType t, bool whole, bool unit_offset) {
  SCOPED_TRACE(fmt::format("{} of {}{}{}", to_string(z.qkv()), name_of(t), whole ? " whole" : "",
                           unit_offset ? " offset" : ""));
  const Array qkv = Array::random(z.qkv(), 1, t, 2), dy = Array::random(z.qkv(), 2, t);
  const Array query = Array::random(whole ? Shape{z.kv, z.g, z.d} : Shape{z.d}, 3, t);
  const Array key = Array::random(whole ? Shape{z.kv, z.d} : Shape{z.d}, 4, t);
  const Array y(z.qkv(), t), dx(z.qkv(), t), squares({z.b, z.t, 2}), d_squares({z.b, z.t, 2});
  HeadNorm n{qkv, query, key};
  if (whole) {
    compute(HeadSquaresArgs{qkv, squares});
    n.squares = squares;
    n.query_count = z.kv * z.g * z.d;
    n.key_count = z.kv * z.d;
  }
  n.epsilon = static_cast<float>(kEpsilon);
  n.unit_offset = unit_offset;
  const Array d_query = Array::full(query.shape(), 10), d_key = Array::full(key.shape(), 20);
  compute(HeadNormArgs{n, y});
  HeadNormGradArgs grad{n, dy, dx, d_query, d_key};
  if (whole) grad.d_squares = d_squares;
  compute(grad);
  if (whole) compute(HeadSquaresGradArgs{qkv, d_squares, dx});

  const double offset = unit_offset ? 1 : 0;
  Reference r = {z, numbers(query, offset), numbers(key, offset), whole};
  const std::vector<double> x = numbers(qkv), up = numbers(dy);
  EXPECT_LT(distance(y, r.y(x)), tolerance(t));
  const auto of_x = [&](const std::vector<double>& at) { return dot(r.y(at), up); };
  EXPECT_LT(distance(dx, differences(x, of_x)), std::max(tolerance(t), 2e-6));
  const auto of_gain = [&](std::vector<double> Reference::*gain, const Array& made, double start) {
    const auto loss = [&](const std::vector<double>& at) {
      Reference other = r;
      other.*gain = at;
      return dot(other.y(x), up);
    };
    std::vector<double> wanted = differences(r.*gain, loss);
    for (double& w : wanted) w += start;
    EXPECT_LT(distance(made, wanted), 2e-6);
  };
  of_gain(&Reference::query_gain, d_query, 10);
  of_gain(&Reference::key_gain, d_key, 20);
}

TEST(HeadNorm, IsOverEachHead) {
  for_every_target([] {
    compare({1, 3, 2, 1, 8}, DType::kF32, false, false);
    compare({2, 2, 1, 3, 12}, DType::kF32, false, true);
    compare({1, 2, 2, 2, 20}, DType::kBF16, false, false);
  });
}

TEST(HeadNorm, OrOverAllHeadsOfAToken) {
  for_every_target([] {
    compare({1, 3, 2, 1, 8}, DType::kF32, true, false);
    compare({1, 2, 2, 3, 9}, DType::kF32, true, true);
  });
}

TEST(HeadNorm, ThreadsDoNotChangeTheBits) {
  const Sizes z{2, 90, 3, 2, 24};
  const Array qkv = Array::random(z.qkv(), 1), dy = Array::random(z.qkv(), 2);
  const Array query = Array::random({z.d}, 3), key = Array::random({z.d}, 4);
  const auto run = [&](int threads) {
    const Array dx(z.qkv()), d_key({z.d});
    Array d_query({z.d});
    compute(HeadNormGradArgs{{qkv, query, key}, dy, dx, d_query, d_key}, threads);
    return d_query;
  };
  const Array one = run(1);
  for (const int threads : {2, 5}) EXPECT_TRUE(one.same_bits(run(threads)));
}

// A rank that has some of the heads divides by the number of all of them.
TEST(HeadNorm, PartsOfTheHeadsMakeTheWhole) {
  const Sizes z{1, 4, 2, 1, 8}, part{1, 4, 1, 1, 8};
  const Array qkv = Array::random(z.qkv(), 1), gain = Array::random({2, 1, 8}, 3);
  const Array key = Array::random({2, 8}, 4), y(z.qkv()), squares({1, 4, 2});
  compute(HeadSquaresArgs{qkv, squares});
  HeadNorm whole{qkv, gain, key, squares, 16, 16};
  compute(HeadNormArgs{whole, y});
  const auto half = [&](const Array& from, const Shape& shape, int64_t row) {
    Array out(shape);
    const int64_t n = shape.elements() / 4;
    for (int64_t i = 0; i < out.size(); ++i)
      out.set(i, from.at(shape.rank() == 5 ? i / n * 2 * n + n + i % n : row + i));
    return out;
  };
  const Array own = half(qkv, part.qkv(), 0), own_gain = half(gain, {1, 1, 8}, 8);
  const Array own_key = half(key, {1, 8}, 8), own_y(part.qkv());
  compute(HeadNormArgs{{own, own_gain, own_key, squares, 16, 16}, own_y});
  EXPECT_LT(distance(own_y, numbers(half(y, part.qkv(), 0))), 1e-7);
}

}  // namespace
}  // namespace tessera::kernels
