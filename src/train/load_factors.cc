// Converts Adafactor's factored second moments (Shazeer & Stern 2018) of packed weights, such as
// query, key and value in one matrix, to those of their parts.
#include "train/load_factors.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "checkpoint/finite.h"

namespace tessera {
namespace {

std::vector<float> read_all(CheckpointReader& checkpoint, const std::string& name, int64_t size) {
  const StoredTensor* stored = checkpoint.find(name);
  if (stored == nullptr || stored->shape != Shape{size})
    throw Error("{}: '{}' is missing or has another shape than [{}]", checkpoint.folder().string(),
                name, size);
  std::vector<float> out(size);
  const TensorView view{out.data(), DType::kF32, {size}};
  checkpoint.read(name, view);
  require_finite(checkpoint, name, view);
  return out;
}

double mean(const std::vector<float>& x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

// Returns the rows of the packed matrix (or elements of the vector) that belong to the part, in
// order.
std::vector<float> rows_of(const std::vector<float>& packed, const Shape& shape,
                           const WeightPart& part, int64_t columns) {
  const auto dim = static_cast<int>(part.dim);
  const int64_t inner = shape.product(dim + 1, shape.rank()) / columns, all = shape[dim] * inner;
  std::vector<float> out;
  for (int64_t at = part.first * inner; at < std::ssize(packed); at += all)
    out.insert(out.end(), packed.begin() + at, packed.begin() + at + part.count * inner);
  return out;
}

}  // namespace

bool load_packed_factors(CheckpointReader& checkpoint, const StatePiece& piece,
                         const Program& program, const TensorView& view) {
  if (piece.role != Role::kFactor || checkpoint.find(piece.name) != nullptr) return false;
  const Value& weight = program[piece.weight];
  // Names are "WEIGHT|rows.PART" and "WEIGHT|columns.PART".
  const size_t bar = piece.name.find('|'), dot = piece.name.find('.', bar);
  if (weight.parts.empty() || dot == std::string::npos) return false;
  const std::string name = piece.name.substr(0, bar), part_name = piece.name.substr(dot + 1);
  if (checkpoint.find(name + "|rows") == nullptr) return false;
  const auto part = std::find_if(weight.parts.begin(), weight.parts.end(),
                                 [&](const WeightPart& p) { return p.name == part_name; });
  CHECK(part != weight.parts.end(), "{} has no part {}", weight.name, part_name);
  const StoredTensor* stored = checkpoint.find(name + "|columns");
  const int64_t columns = stored ? stored->shape.elements() : 1;
  const std::vector<float> packed =
      read_all(checkpoint, name + "|rows", weight.shape.elements() / columns);
  const std::vector<float> rows = rows_of(packed, weight.shape, *part, columns);
  std::vector<float> out = rows;
  if (piece.name.substr(bar, dot - bar) == "|columns") {
    out = read_all(checkpoint, name + "|columns", columns);
    // Scaling the columns keeps the estimate rows[i] * columns[j] / mean(rows) of every element,
    // because the mean of the rows changes by the same factor.
    const double all = mean(packed), factor = all > 0 ? mean(rows) / all : 1;
    for (float& x : out) x = static_cast<float>(static_cast<double>(x) * factor);
  }
  CHECK(view.dtype == DType::kF32 && view.elements() == std::ssize(out), "{} has {} elements",
        piece.name, out.size());
  std::copy(out.begin(), out.end(), view.f32());
  return true;
}

}  // namespace tessera
