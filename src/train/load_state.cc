// Reads a rank's box of a stored tensor, and handles tables with other numbers of rows:
// vocabularies with different padding, and position tables of models with a longer context.
#include "train/load_state.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "checkpoint/finite.h"
#include "kernels/elementwise.h"

namespace tessera::train {
namespace {

bool differs_in_rows_alone(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank() || a.rank() != 2) return false;
  return a[1] == b[1];
}

// Returns true if a table of `rows` rows is sufficient for this model.
bool enough_rows(const StateShard& shard, const model::ModelConfig& model, int64_t rows) {
  if (shard.role != Role::kWeight) return false;
  if (shard.name == "embed.position.weight") return rows >= model.context;
  const bool words = shard.name == "embed.weight" || shard.name == "head.weight";
  return words && rows >= model.vocabulary;
}

void read_shard(checkpoint::CheckpointReader& checkpoint, const StateShard& shard,
                const model::ModelConfig& model, const TensorView& view) {
  const checkpoint::StoredTensor* stored = checkpoint.find(shard.name);
  if (!stored || stored->shape == shard.shape)
    return checkpoint.read(shard.name, shard.begin, shard.end, view);
  if (!differs_in_rows_alone(stored->shape, shard.shape) ||
      !enough_rows(shard, model, stored->shape[0]))
    throw Error("{}: '{}' has the shape {}, expected {}", checkpoint.folder().string(), shard.name,
                to_string(stored->shape), to_string(shard.shape));
  std::vector<int64_t> end = shard.end;
  end[0] = std::min(end[0], stored->shape[0]);
  // Rows that the checkpoint does not have are padding, which is zero.
  if (end[0] < shard.end[0]) kernels::launch(kernels::Cpu(), {}, kernels::ClearArgs{view});
  const int64_t rows = end[0] - shard.begin[0];
  if (rows <= 0) return;
  // The first rows of a dense box are a dense box, so they can be read in place.
  const TensorView there{view.data, view.dtype, Shape{rows, end[1] - shard.begin[1]}};
  checkpoint.read(shard.name, shard.begin, end, there);
}

}  // namespace

void load_shard(checkpoint::CheckpointReader& checkpoint, const StateShard& shard,
                const model::ModelConfig& model, const TensorView& view) {
  const size_t bar = shard.name.find('|');  // only names of optimizer state have it
  if (bar != shard.name.npos && checkpoint.find(shard.name) == nullptr)
    throw Error(
        "{0}: has no optimizer state '{1}', because '{2}' was not trained when the checkpoint was "
        "saved. Set optimizer.freeze and lora as they were, or start a new run from the weights "
        "with "
        "checkpoint.from={0} checkpoint.load=weights checkpoint.resume=never.",
        checkpoint.folder().string(), shard.name, shard.name.substr(0, bar));
  read_shard(checkpoint, shard, model, view);
  checkpoint::require_finite(checkpoint, shard.name, view);
}

// ---- Converts Adafactor's factored second moments (Shazeer & Stern 2018) of packed weights, such
// as query, key and value in one matrix, to the moments of their parts.

namespace {

std::vector<float> read_all(checkpoint::CheckpointReader& checkpoint, const std::string& name,
                            int64_t size) {
  const checkpoint::StoredTensor* stored = checkpoint.find(name);
  if (stored == nullptr || stored->shape != Shape{size})
    throw Error("{}: '{}' is missing or has another shape than [{}]", checkpoint.folder().string(),
                name, size);
  std::vector<float> out(size);
  const TensorView view{out.data(), DType::kF32, {size}};
  checkpoint.read(name, view);
  checkpoint::require_finite(checkpoint, name, view);
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

bool load_packed_factors(checkpoint::CheckpointReader& checkpoint, const StateShard& shard,
                         const Program& program, const TensorView& view) {
  if (shard.role != Role::kFactoredMoment || checkpoint.find(shard.name) != nullptr) return false;
  const Value& weight = program[shard.weight];
  // Names are "WEIGHT|rows.PART" and "WEIGHT|columns.PART".
  const size_t bar = shard.name.find('|'), dot = shard.name.find('.', bar);
  if (weight.parts.empty() || dot == std::string::npos) return false;
  const std::string name = shard.name.substr(0, bar), part_name = shard.name.substr(dot + 1);
  if (checkpoint.find(name + "|rows") == nullptr) return false;
  const auto part = std::find_if(weight.parts.begin(), weight.parts.end(),
                                 [&](const WeightPart& p) { return p.name == part_name; });
  CHECK(part != weight.parts.end(), "{} has no part {}", weight.name, part_name);
  const checkpoint::StoredTensor* stored = checkpoint.find(name + "|columns");
  const int64_t columns = stored ? stored->shape.elements() : 1;
  const std::vector<float> packed =
      read_all(checkpoint, name + "|rows", weight.shape.elements() / columns);
  const std::vector<float> rows = rows_of(packed, weight.shape, *part, columns);
  std::vector<float> out = rows;
  if (shard.name.substr(bar, dot - bar) == "|columns") {
    out = read_all(checkpoint, name + "|columns", columns);
    // Scaling the columns keeps the estimate rows[i] * columns[j] / mean(rows) of every element,
    // because the mean of the rows changes by the same factor.
    const double all = mean(packed), factor = all > 0 ? mean(rows) / all : 1;
    for (float& x : out) x = static_cast<float>(static_cast<double>(x) * factor);
  }
  CHECK(view.dtype == DType::kF32 && view.elements() == std::ssize(out), "{} has {} elements",
        shard.name, out.size());
  std::copy(out.begin(), out.end(), view.f32());
  return true;
}

}  // namespace tessera::train
