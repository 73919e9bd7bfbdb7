// Writes and parses index.json, the list of a checkpoint's contents. docs/checkpoint_format.md has
// its keys.
//
// Its last member is the checksum of all bytes before it, so that a damaged index is always
// detected.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace tessera::checkpoint {

constexpr int kCheckpointFormat = 1;     // increased if older programs cannot read the new format
constexpr int64_t kPieceAlignment = 64;  // bytes; every piece begins at a multiple of this
inline constexpr const char* kIndexFile = "index.json";
inline constexpr const char* kTokenizerFile = "tokenizer.json";
inline constexpr const char* kSentencePieceFile = "tokenizer.model";
// Returns which of the two files a tokenizer's bytes belong in: a tokenizer.json is a JSON object.
const char* tokenizer_file_name(std::string_view bytes);
std::string pieces_file(int64_t rank);  // "pieces-3.bin"
// Returns "pieces-3.json", the list of pieces that a rank writes for rank 0, which removes it.
std::string piece_list_file(int64_t rank);

struct StoredFile {
  std::string name;  // in the checkpoint's folder
  int64_t bytes = 0;
};

struct CheckpointIndex {
  CheckpointHeader header;        // without the tokenizer's bytes
  std::vector<StoredFile> files;  // one per rank
  bool has_tokenizer = false;
  int64_t tokenizer_bytes = 0;
  uint64_t tokenizer_checksum = 0;
  std::vector<StoredTensor> tensors;  // sorted by name
};

std::string to_text(const CheckpointIndex& index);

// The index has a format that this version does not read.
class OtherFormat : public Error {
  using Error::Error;
};

// Parses an index; `source` names the text in errors. Throws OtherFormat, and Error if the index is
// damaged or inconsistent: unknown types, boxes that exceed a tensor or do not cover it exactly
// once, pieces that exceed their file. Does not check that the files exist.
CheckpointIndex parse_index(std::string_view text, const std::string& source);

// Convert only the list of tensors and pieces, which rank 0 merges.
Tree to_tree(const std::vector<StoredTensor>& tensors);
std::vector<StoredTensor> tensors_from_tree(const Tree& tree, const std::string& source);

}  // namespace tessera::checkpoint
