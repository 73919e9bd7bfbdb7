// Presents a model in a Hugging Face folder as a checkpoint of step 0, by mapping each part of
// Tessera's tensors to the files. Nothing is copied: reading a box touches only the pages of that
// box.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/shape.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "model/model_config.h"

namespace tessera::checkpoint {

// A piece as the file stores it. In NumPy's notation the piece is
// bytes.reshape(view).transpose(axes). With scales, `bytes` are the blocks of MXFP4 numbers
// (checkpoint/mxfp4.h) in the order of the piece, whose type is bf16.
struct HfPiece {
  std::span<const std::byte> bytes;  // mapped by HfSource::files
  Shape view;
  std::vector<int> axes;
  std::span<const std::byte> scales = {};

  bool moves() const;  // true if the file has the dimensions in another order
  bool is_encoded() const { return !scales.empty(); }
  // Returns a function that fills with elements of the piece, stored as `from`, converted to `to`.
  FillPiece filled(DType from, DType to) const;
};

struct HfSource {
  std::unique_ptr<SafetensorsFolder> files;
  model::ModelConfig model;
  CheckpointHeader header;
  std::vector<StoredTensor> tensors;         // sorted by name; `file` of their pieces is unused
  std::vector<std::vector<HfPiece>> pieces;  // the pieces of each tensor
  std::vector<std::string> skipped;          // names of tensors not used, such as attention masks
};

// Returns true for a Hugging Face folder: it has a config.json and no index of a checkpoint.
bool is_hf_folder(const Path& folder);

// Opens a Hugging Face folder. Throws Error if the family or a feature in config.json is not
// supported, or if tensors are missing, extra, have another shape or are stored in different types
// within one tensor of Tessera (one Error lists them).
HfSource open_hf(const Path& folder);

// Copies the elements of the box `common` from a piece, whose box is `from_box`, to a dense array
// of the box `to_box`.
void copy_box(const Box& common, const Box& from_box, const HfPiece& from, const Box& to_box,
              std::byte* to, int64_t element_bytes);

}  // namespace tessera::checkpoint
