#include "train/load_state.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/finite.h"
#include "kernels/fill.h"

namespace tessera {
namespace {

bool differs_in_rows_alone(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank() || a.rank() != 2) return false;
  return a[1] == b[1];
}

// Whether `rows` of a table will do for this model's.
bool enough_rows(const StatePiece& piece, const ModelConfig& model, int64_t rows) {
  if (piece.role != Role::kWeight) return false;
  if (piece.name == "embed.position.weight") return rows >= model.context;
  const bool words = piece.name == "embed.weight" || piece.name == "head.weight";
  return words && rows >= model.vocabulary;
}

void read_piece(CheckpointReader& checkpoint, const StatePiece& piece, const ModelConfig& model,
                const TensorView& view) {
  const StoredTensor* stored = checkpoint.find(piece.name);
  if (!stored || stored->shape == piece.shape)
    return checkpoint.read(piece.name, piece.begin, piece.end, view);
  if (!differs_in_rows_alone(stored->shape, piece.shape) ||
      !enough_rows(piece, model, stored->shape[0]))
    throw Error("{}: '{}' has the shape {}, wanted {}", checkpoint.folder().string(), piece.name,
                to_string(stored->shape), to_string(piece.shape));
  std::vector<int64_t> end = piece.end;
  end[0] = std::min(end[0], stored->shape[0]);
  if (end[0] < piece.end[0]) kernels::launch(kernels::Cpu(), {}, kernels::ClearArgs{view});
  const int64_t rows = end[0] - piece.begin[0];
  if (rows <= 0) return;
  // The first rows of a dense box are a dense box.
  const TensorView there{view.data, view.dtype, Shape{rows, end[1] - piece.begin[1]}};
  checkpoint.read(piece.name, piece.begin, end, there);
}

}  // namespace

void load_piece(CheckpointReader& checkpoint, const StatePiece& piece, const ModelConfig& model,
                const TensorView& view) {
  read_piece(checkpoint, piece, model, view);
  require_finite(checkpoint, piece.name, view);
}

}  // namespace tessera
