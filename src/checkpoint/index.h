// index.json: what a checkpoint holds, as text and back. docs/checkpoint_format.md has its keys.
//
// Its last member is the checksum of all bytes before it, so that a damaged index is never
// believed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"

namespace tessera::checkpoint {

constexpr int kCheckpointFormat = 1;     // raised when an older program could not read the new one
constexpr int64_t kPieceAlignment = 64;  // bytes; every piece begins at a multiple of this
inline constexpr const char* kIndexFile = "index.json";
inline constexpr const char* kTokenizerFile = "tokenizer.json";
inline constexpr const char* kSentencePieceFile = "tokenizer.model";
// Which of the two a tokenizer's bytes belong in: a tokenizer.json is an object of JSON.
const char* tokenizer_file_name(std::string_view bytes);
std::string pieces_file(int64_t rank);  // "pieces-3.bin"
// "pieces-3.json": the list of pieces that a rank passes to rank 0, which removes it.
std::string piece_list_file(int64_t rank);

struct StoredFile {
  std::string name;  // in the checkpoint's folder
  int64_t bytes = 0;
};

struct CheckpointIndex {
  CheckpointHeader header;        // without the tokenizer's text
  std::vector<StoredFile> files;  // one a rank
  bool has_tokenizer = false;
  int64_t tokenizer_bytes = 0;
  uint64_t tokenizer_checksum = 0;
  std::vector<StoredTensor> tensors;  // sorted by name
};

std::string to_text(const CheckpointIndex& index);

// The index is of a checkpoint format that this version does not read.
class OtherFormat : public Error {
  using Error::Error;
};

// `source` names the text in errors. Throws OtherFormat, and Error if it is damaged or
// inconsistent: unknown types, boxes outside of a tensor or not covering it exactly once, pieces
// outside of their file. Whether the files are there is for the reader to see.
CheckpointIndex parse_index(std::string_view text, const std::string& source);

// The list of pieces alone, for the merge of several ranks.
Tree to_tree(const std::vector<StoredTensor>& tensors);
std::vector<StoredTensor> tensors_from_tree(const Tree& tree, const std::string& source);

}  // namespace tessera::checkpoint
