// Reads a rank's box of a stored tensor, and handles tables whose numbers of rows differ:
// vocabularies with other padding and tables of positions of longer models.
#include "train/load_state.h"

#include <algorithm>

#include "base/error.h"
#include "checkpoint/finite.h"
#include "kernels/elementwise.h"

namespace tessera {
namespace {

bool differs_in_rows_alone(const Shape& a, const Shape& b) {
  if (a.rank() != b.rank() || a.rank() != 2) return false;
  return a[1] == b[1];
}

// Returns true if a table of `rows` rows is sufficient for this model.
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
  // Rows that the checkpoint does not have are padding, which is zero.
  if (end[0] < piece.end[0]) kernels::launch(kernels::Cpu(), {}, kernels::ClearArgs{view});
  const int64_t rows = end[0] - piece.begin[0];
  if (rows <= 0) return;
  // The first rows of a dense box are a dense box, so they can be read in place.
  const TensorView there{view.data, view.dtype, Shape{rows, end[1] - piece.begin[1]}};
  checkpoint.read(piece.name, piece.begin, end, there);
}

}  // namespace

void load_piece(CheckpointReader& checkpoint, const StatePiece& piece, const ModelConfig& model,
                const TensorView& view) {
  const size_t bar = piece.name.find('|');  // of optimizer state
  if (bar != piece.name.npos && checkpoint.find(piece.name) == nullptr)
    throw Error(
        "{0}: has no optimizer state '{1}': '{2}' was not trained when this was saved. Set "
        "optimizer.freeze and lora as they were, or start a new run from the weights with "
        "checkpoint.from={0} checkpoint.load=weights checkpoint.resume=never.",
        checkpoint.folder().string(), piece.name, piece.name.substr(0, bar));
  read_piece(checkpoint, piece, model, view);
  require_finite(checkpoint, piece.name, view);
}

}  // namespace tessera
