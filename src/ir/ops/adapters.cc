// Rules of the ops of adapters. Ranks may divide every dimension except the one that is cut into
// parts. If they divide the inputs of a weight, each has a part of its sums of squares.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

Shape with(const Shape& s, int64_t dim, int64_t n) {
  std::vector<int64_t> dims = s.dims();
  dims[dim] = n;
  return Shape(std::move(dims));
}

// CHECKs that `part` has the extents of `all` except in dimension `dim`, where it is a range that
// begins at `first`.
void check_part(const Op& op, const Shape& all, const Shape& part, int64_t dim, int64_t first) {
  CHECK(dim < all.rank() && part.rank() == all.rank() && with(all, dim, 1) == with(part, dim, 1) &&
            first + part[static_cast<int>(dim)] <= all[static_cast<int>(dim)],
        "{}: {} is not a part of {} from {} of dimension {}", op.origin, to_string(part),
        to_string(all), first, dim);
}

std::vector<OutputSpec> infer_add(const Op& op, const Inputs& in) {
  CHECK(in.size() == 2, "add_part expects base and change");
  const AddPart& a = op.as<AddPart>();
  check_part(op, in[0]->shape, in[1]->shape, a.dim, a.first);
  return {{"", in[0]->dtype, in[0]->shape}};
}

std::vector<OutputSpec> infer_take(const Op& op, const Inputs& in) {
  const TakePart& a = op.as<TakePart>();
  CHECK(in.size() == 1 && a.dim < in[0]->shape.rank(), "take_part expects x");
  const Shape part = with(in[0]->shape, a.dim, a.count);
  check_part(op, in[0]->shape, part, a.dim, a.first);
  return {{".part", in[0]->dtype, part}};
}

std::vector<OutputSpec> infer_squares(const Op& op, const Inputs& in) {
  CHECK(in.size() == 3, "adapted_squares expects w, a and b");
  const Shape &w = in[0]->shape, &a = in[1]->shape, &b = in[2]->shape;
  const int out = b.rank() - 1, contract = a.rank() - 1;
  CHECK(out >= 1 && contract >= 1 && w.rank() == out + contract && b[-1] == a[0],
        "{}: adapters {} and {} of {}", op.origin, to_string(a), to_string(b), to_string(w));
  for (int d = 0; d < contract; ++d)
    CHECK(w[out + d] == a[1 + d], "{}: an adapter {} of {}", op.origin, to_string(a), to_string(w));
  const auto outputs = [&](const Shape& s) {
    return Shape(std::vector<int64_t>(s.dims().begin(), s.dims().begin() + out));
  };
  const AdaptedSquares& of = op.as<AdaptedSquares>();
  check_part(op, outputs(w), outputs(b), of.dim, of.first);
  return {{".squares", DType::kF32, outputs(b)}};
}

// CHECKs magnitudes or squares against x, whose last dimensions they have.
void check_factors(const Op& op, const Shape& x, const Shape& factors, int64_t dim, int64_t first) {
  const int lead = x.rank() - factors.rank();
  CHECK(lead >= 0 && dim >= lead, "{}: factors {} of {}", op.origin, to_string(factors),
        to_string(x));
  const Shape last(std::vector<int64_t>(x.dims().begin() + lead, x.dims().end()));
  check_part(op, last, factors, dim - lead, first);
}

std::vector<OutputSpec> infer_scale(const Op& op, const Inputs& in) {
  CHECK(in.size() == 3 && in[1]->shape == in[2]->shape,
        "scale_part expects x, magnitude and squares");
  const ScalePart& a = op.as<ScalePart>();
  check_factors(op, in[0]->shape, in[1]->shape, a.dim, a.first);
  return {{"", in[0]->dtype, in[0]->shape}};
}

std::vector<OutputSpec> infer_scale_grad(const Op& op, const Inputs& in) {
  CHECK(in.size() == 3 && in[0]->shape == in[1]->shape,
        "scale_part_grad expects dy, x and squares");
  const ScalePartGrad& a = op.as<ScalePartGrad>();
  check_factors(op, in[0]->shape, in[2]->shape, a.dim, a.first);
  return {{".gradient", a.accum_dtype, in[2]->shape}};
}

constexpr char kPart = 'z';  // the label of a dimension that is a part in one operand

// The labels of a value of the shape `all`, those of a value that has a part of its dimension
// `dim`, and those that may be split: the cut dimension only where the part is all of it.
struct Labels {
  std::string all, part, splits;
  Labels(const Shape& shape, int64_t dim, int64_t count)
      : all(std::string("abcdefgh").substr(0, static_cast<size_t>(shape.rank()))),
        part(all),
        splits(all) {
    if (count == shape[static_cast<int>(dim)]) return;
    part[static_cast<size_t>(dim)] = kPart;
    splits.erase(static_cast<size_t>(dim), 1);
  }
};

ShardingRule sharding_add(const Op& op, ValueSpan values) {
  const int64_t dim = op.as<AddPart>().dim;
  const Shape& change = values[op.inputs[AddPart::kChange]].shape;
  const Labels l(values[op.inputs[AddPart::kBase]].shape, dim, change[static_cast<int>(dim)]);
  return {{l.all, l.part}, {l.all}, l.splits, {{0, 1}}};
}
ShardingRule sharding_take(const Op& op, ValueSpan values) {
  const TakePart& a = op.as<TakePart>();
  const Labels l(values[op.inputs[TakePart::kX]].shape, a.dim, a.count);
  return {{l.all}, {l.part}, l.splits, {{0}}};
}
ShardingRule sharding_squares(const Op& op, ValueSpan values) {
  const int64_t dim = op.as<AdaptedSquares>().dim;
  const Shape &w = values[op.inputs[AdaptedSquares::kW]].shape,
              &b = values[op.inputs[AdaptedSquares::kB]].shape;
  const int out = b.rank() - 1;
  const Shape outputs(std::vector<int64_t>(w.dims().begin(), w.dims().begin() + out));
  const Labels l(outputs, dim, b[static_cast<int>(dim)]);
  const std::string in = std::string("uvwx").substr(0, static_cast<size_t>(w.rank() - out));
  return {{l.all + in, "r" + in, l.part + "r"}, {l.part}, l.splits + in, {}};
}

// Returns the labels of x, and those of factors for its last dimensions.
std::pair<Labels, std::string> scaled_labels(const Shape& x, const Shape& factors, int64_t dim) {
  const int64_t lead = x.rank() - factors.rank();
  Labels l(x, dim, factors[static_cast<int>(dim - lead)]);
  std::string last = l.part.substr(static_cast<size_t>(lead));
  return {std::move(l), std::move(last)};
}
ShardingRule sharding_scale(const Op& op, ValueSpan values) {
  const auto [l, factors] =
      scaled_labels(values[op.inputs[ScalePart::kX]].shape,
                    values[op.inputs[ScalePart::kSquares]].shape, op.as<ScalePart>().dim);
  return {{l.all, factors, factors}, {l.all}, l.splits, {{0}}};
}
ShardingRule sharding_scale_grad(const Op& op, ValueSpan values) {
  const auto [l, factors] =
      scaled_labels(values[op.inputs[ScalePartGrad::kX]].shape,
                    values[op.inputs[ScalePartGrad::kSquares]].shape, op.as<ScalePartGrad>().dim);
  return {{l.all, l.all, factors}, {factors}, l.splits, {{0}, {1}}};
}

void gradient_add(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]), change = op.inputs[AddPart::kChange];
  if (dy == kNone) return;
  const AddPart& a = op.as<AddPart>();
  const TakePart take = {a.dim, a.first, g[change].shape[static_cast<int>(a.dim)]};
  if (g.wanted(op.inputs[AddPart::kBase])) g.add(op.inputs[AddPart::kBase], dy);
  g.add(change, g.builder().emit_one(take, op.origin, {dy}));
}

// The squares are constants, so the gradient of x is dy times the same factors.
void gradient_scale(Gradients& g, const Op& op) {
  const ValueId dy = g.of(op.outputs[0]), x = op.inputs[ScalePart::kX];
  const ValueId magnitude = op.inputs[ScalePart::kMagnitude];
  const ValueId squares = op.inputs[ScalePart::kSquares];
  if (dy == kNone) return;
  const ScalePart& a = op.as<ScalePart>();
  Builder& b = g.builder();
  b.emit(ScalePartGrad{a.dim, a.first}, op.origin, {dy, x, squares}, {g.weight(magnitude)});
  g.add(x, b.emit_one(a, op.origin + ".gradient", {dy, magnitude, squares}));
}

// The work of the change B A, as one GEMM over the inputs. Its kernel is not that of GEMMs, so its
// rate is one of its own.
Cost squares_cost(const Op& op, ValueSpan values) {
  const Value &a = values[op.inputs[AdaptedSquares::kA]],
              &b = values[op.inputs[AdaptedSquares::kB]];
  GemmShape s;
  s.type = a.dtype;
  s.k = a.shape[0];
  s.m = b.shape.elements() / s.k;
  s.n = a.shape.elements() / s.k;
  return product_cost(op, values, Work::kScores, {s});
}

}  // namespace

const OpRule AddPart::rule = {
    .infer = infer_add, .sharding = sharding_add, .gradient = gradient_add, .in_place = over_first};
const OpRule TakePart::rule = {.infer = infer_take, .sharding = sharding_take};
const OpRule AdaptedSquares::rule = {.infer = infer_squares,
                                     .sharding = sharding_squares,
                                     .cost = squares_cost,
                                     .time = TimeGroup::kMatrix};
const OpRule ScalePart::rule = {.infer = infer_scale,
                                .sharding = sharding_scale,
                                .gradient = gradient_scale,
                                .in_place = over_first};
const OpRule ScalePartGrad::rule = {.infer = infer_scale_grad, .sharding = sharding_scale_grad};

}  // namespace tessera
