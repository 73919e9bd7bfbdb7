// A model in a Hugging Face folder, seen as a checkpoint of step 0: where each part of our tensors
// lies in its files. Nothing is copied: who reads a box touches the pages of that box.
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

// A piece as their file has it: in numpy's terms it is bytes.reshape(view).transpose(axes).
struct HfPiece {
  std::span<const std::byte> bytes;  // mapped by HfSource::files
  Shape view;
  std::vector<int> axes;

  bool moves() const;  // the dimensions stand in another order
};

struct HfSource {
  std::unique_ptr<SafetensorsFolder> files;
  model::ModelConfig model;
  CheckpointHeader header;
  std::vector<StoredTensor> tensors;         // sorted by name; their pieces name no file
  std::vector<std::vector<HfPiece>> pieces;  // of each tensor
  std::vector<std::string> skipped;          // attention masks and the like
};

// Whether the folder is one: it has a config.json, and no checkpoint's index.
bool is_hf_folder(const Path& folder);

// Throws Error if the family or a feature of config.json is not ours, and if tensors are missing,
// extra, of another shape or stored in types that differ within one of ours (one Error lists them).
HfSource open_hf(const Path& folder);

// Copies the elements of `common` from a piece, whose box is `from_box`, into a dense array that
// holds `to_box`.
void copy_box(const Box& common, const Box& from_box, const HfPiece& from, const Box& to_box,
              std::byte* to, int64_t element_bytes);

}  // namespace tessera::checkpoint
