// A layer of experts with a capacity, forward and backward, against scripts/capacity_golden.py.
#include <functional>

#include "base/file.h"
#include "base/tree.h"
#include "kernels/experts.h"
#include "kernels/router.h"
#include "tests/kernels/array.h"

namespace tessera::kernels {
namespace {

void append_numbers(const Tree& t, std::vector<double>& out) {
  if (const Tree::List* const list = t.as_list())
    for (const Tree& each : *list) append_numbers(each, out);
  else
    out.push_back(number_in(t).value());
}
std::vector<double> numbers_of(const Tree& t, std::string_view name) {
  std::vector<double> out;
  append_numbers(*t.find(name), out);
  return out;
}
Array array_of(const Tree& t, std::string_view name, const Shape& shape) {
  const std::vector<double> numbers = numbers_of(t, name);
  Array a(shape);
  EXPECT_EQ(a.size(), std::ssize(numbers)) << name;
  for (int64_t i = 0; i < a.size(); ++i) a.set(i, numbers[static_cast<size_t>(i)]);
  return a;
}

constexpr int64_t kTokens = 11, kExperts = 5, kChosen = 2, kHidden = 4, kInner = 3;

struct Layer {
  Array x, dy, up, down, logits;
  Array choice{{1, kTokens, kChosen}, DType::kI32}, kept{{1, kTokens, kChosen}, DType::kI32};
  Array weights{{1, kTokens, kChosen}}, scores{{1, kTokens, kExperts}};
  Array y{{kTokens, kHidden}}, dx{{kTokens, kHidden}}, dw{{1, kTokens, kChosen}};
  Array d_logits{{1, kTokens, kExperts}};

  explicit Layer(const Tree& t)
      : x(array_of(t, "x", {kTokens, kHidden})),
        dy(array_of(t, "dy", {kTokens, kHidden})),
        up(array_of(t, "up", {kExperts, kInner, 2, kHidden})),
        down(array_of(t, "down", {kExperts, kHidden, kInner})),
        logits(array_of(t, "logits", {1, kTokens, kExperts})) {}

  void run(int64_t capacity, bool saves) {
    compute(RouteArgs{{}, logits, {}, choice, weights, scores});
    compute(ExpertCapacityArgs{kExperts, capacity, choice, kept});
    ExpertsShape s{.tokens = kTokens,
                   .hidden = kHidden,
                   .inner = kInner,
                   .experts = kExperts,
                   .chosen = kChosen,
                   .all_experts = kExperts,
                   .pairs = saves};
    Array pairs({kTokens, kChosen, kInner, 2});
    ExpertsOperands o;
    o.x = x.data();
    o.choice = kept.as<int32_t>();
    o.weights = weights.as<float>();
    o.up = up.data();
    o.down = down.data();
    o.pairs = pairs.data();
    o.y = y.data();
    o.dy = dy.data();
    o.dx = dx.data();
    o.d_weights = dw.as<float>();
    for (const bool gradient : {false, true}) {
      s.gradient = gradient;
      const CpuExperts experts(s, read_cpu_features(), 1);
      const HostBuffer workspace("workspace", experts.workspace_bytes());
      experts.run({.workspace = workspace.data(), .threads = 1}, o);
    }
    compute(RouteGradArgs{{}, scores, choice, dw, d_logits});
  }
};

TEST(ExpertCapacity, EqualsAPlainImplementation) {
  const Path file = Path(TESSERA_SOURCE) / "tests/kernels/capacity_golden.json";
  const Tree all = parse_json(read_file(file), file.string());
  Layer layer(all);
  const Tree::List& cases = *all.find("cases")->as_list();
  ASSERT_EQ(cases.size(), 6u);
  for (const Tree& c : cases)
    for (const bool saves : {false, true}) {
      const auto capacity = static_cast<int64_t>(number_in(*c.find("capacity")).value());
      SCOPED_TRACE(::testing::Message() << "capacity " << capacity);
      layer.run(capacity, saves);
      const std::vector<double> kept = numbers_of(c, "kept");
      ASSERT_EQ(layer.kept.size(), std::ssize(kept));
      for (int64_t i = 0; i < layer.kept.size(); ++i)
        EXPECT_EQ(layer.kept.at(i), kept[static_cast<size_t>(i)]) << i;
      EXPECT_LT(distance(layer.y, numbers_of(c, "y")), 1e-6);
      EXPECT_LT(distance(layer.dx, numbers_of(c, "d_x")), 2e-6);
      EXPECT_LT(distance(layer.d_logits, numbers_of(c, "d_logits")), 2e-6);
    }
}

}  // namespace
}  // namespace tessera::kernels
