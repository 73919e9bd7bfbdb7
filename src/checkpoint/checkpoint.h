// A checkpoint: the whole state of a run at one step, in a folder that is either whole or absent.
//
//   checkpoints/1200/index.json        header, list of tensors and their pieces, checksums; last
//   checkpoints/1200/pieces-0.bin      the bytes of the pieces that rank 0 owned; one file a rank
//   checkpoints/1200/tokenizer.json    what turns its tokens into text, or tokenizer.model
//
// It is written as checkpoints/1200.<process>.part, every file and folder is flushed to the disk,
// and only then it is renamed. So a run that is killed, or a disk that is full, at any moment loses
// nothing that was saved before. docs/checkpoint_format.md has the format byte by byte.
//
// Tensors have global, true shapes; a piece is a box of one. Names: weights in f32 under the
// model's own names ("layer3.attn.qkv.weight"), the optimizer's state as "<name>|moment1" and
// "<name>|moment2". The ranks that save may differ from those that read.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "base/tree.h"
#include "tensor/tensor.h"

namespace tessera::checkpoint {

// A piece of state to be saved: `data` holds the box [begin, end) of the global value, row-major.
struct StateTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;                      // global
  std::vector<int64_t> begin, end;  // one entry a dimension; both empty: the whole value
  TensorView data;                  // the piece; its dtype is `dtype`
};

struct CheckpointHeader {
  int64_t step = 0;     // optimizer steps done
  int64_t tokens = 0;   // tokens trained on
  Tree config;          // the whole run configuration; an empty object if it was imported
  Tree model;           // the model's configuration (ModelConfig)
  Tree state;           // what else the run must remember (data position, loss scale); may be null
  std::string version;  // of the program that wrote it
  std::string tokenizer;  // bytes of tokenizer.json or a SentencePiece model; empty: none
  int64_t ranks = 1;      // that saved it; set by the writer
};

// The ranks that save. With more than one, both functions are collective. `require_no_error` gets
// why this rank failed, empty if it did not, and throws Error on every rank if one failed
// (comm/agree.h). `broadcast` gives the text of rank 0 to all ranks.
struct SaveGroup {
  int64_t rank = 0, ranks = 1;
  std::function<void(const std::string& own)> require_no_error = {};
  std::function<void(std::string&)> broadcast = {};
};

// How to treat a checkpoint that already exists at the path of a new one.
enum class Existing : uint8_t { kIsReplaced, kIsKept };

// Fills elements [first, first + count) of a piece, in row-major order, into `out`.
using FillPiece = std::function<void(int64_t first, int64_t count, std::byte* out)>;

// A piece as it lies in a file.
struct StoredPiece {
  std::vector<int64_t> begin, end;  // box of the global value
  int64_t file = 0;                 // index into the checkpoint's files
  int64_t offset = 0, bytes = 0;
  uint64_t checksum = 0;  // XXH3-64 of its bytes
};

// A tensor as it is stored; its pieces cover the global value once and only once.
struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<StoredPiece> pieces;
};

// Writes one checkpoint piece by piece; nothing is at `folder` before commit(). Without commit(),
// also after an error, what was written is removed. An existing checkpoint at `folder` is replaced
// atomically, or kept: then commit() throws Error, as it does for any other folder that has files.
// All ranks construct, and all ranks commit, or finish. If commit() fails on one rank, it throws
// Error on every rank, and nothing appears at `folder`. Throws Error (full disk …), and
// NumericError for a tensor that holds NaN or infinity: such a state is never saved.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(Path folder, SaveGroup group = {},
                            Existing existing = Existing::kIsReplaced);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Sets a function that is called when the disk is full; if it returns true, the write is retried.
  void on_full_disk(std::function<bool()> make_space) {
    file_->on_full_disk(std::move(make_space));
  }
  // Writes straight from the view, without a copy.
  void add(const StateTensor& tensor);
  // The same for a piece that is made while it is written; `tensor.data` is not used.
  void add_streamed(const StateTensor& tensor, const FillPiece& fill);
  void commit(const CheckpointHeader& header);  // the header of rank 0 counts

  // commit() in two parts that wait for nobody (saving.h). All pieces of this rank are added: they
  // reach the disk.
  void finish();
  // Rank 0, once every rank has finished: the index, and then the checkpoint stands in its place.
  void publish(const CheckpointHeader& header);

 private:
  StoredPiece& begin_piece(const StateTensor& tensor);
  void write_index(const CheckpointHeader& header);

  Path folder_, part_;
  SaveGroup group_;
  Existing existing_;
  std::vector<StoredTensor> tensors_;  // the pieces of this rank, in the order they were added
  std::unique_ptr<FileWriter> file_;
  bool finished_ = false, published_ = false;
};

// A checkpoint whose files are missing, cut off or changed: another one may be intact. A system
// error (permissions, an unreachable disk, no memory) is a FileError instead: it does not mean
// damage.
class DamagedCheckpoint : public Error {
  using Error::Error;
};

struct HfSource;

// Reads a checkpoint folder, or a Hugging Face folder as one of step 0 (checkpoint/hf_source.h),
// which has no checksums. Whoever reads a box touches its bytes alone, so each rank can take its
// part of a large model. Opening checks index.json against its checksum, every size it states
// against the files, and the tokenizer; a piece is checked against its checksum when it is first
// read. Throws DamagedCheckpoint or another Error that names the file and what is wrong. Files are
// mapped, not loaded.
class CheckpointReader {
 public:
  explicit CheckpointReader(const Path& folder);
  ~CheckpointReader();
  CheckpointReader(CheckpointReader&&) noexcept;

  const Path& folder() const { return folder_; }
  const CheckpointHeader& header() const { return header_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // sorted by name
  const StoredTensor* find(std::string_view name) const;                 // nullptr: not there

  // Reads the box [begin, end) of the global value into `out` (the box's shape, dense). The types
  // may differ among f32, bf16, f16 and f64: widening is exact, narrowing rounds to nearest even.
  // Throws Error if there is no such tensor, the box lies outside, or its bytes are damaged.
  void read(std::string_view name, std::span<const int64_t> begin, std::span<const int64_t> end,
            TensorView out);
  void read(std::string_view name, TensorView out);  // the whole value

  // Its bytes as they are mapped, where it is stored in one piece; otherwise empty. Checked.
  std::span<const std::byte> whole(const StoredTensor& tensor);

  // Checks every piece that has not been read yet. Returns the bytes checked.
  int64_t verify();

 private:
  std::span<const std::byte> checked(const StoredTensor& tensor, size_t piece);

  Path folder_;
  CheckpointHeader header_;
  std::vector<StoredTensor> tensors_;
  std::vector<MappedFile> files_;
  std::unique_ptr<HfSource> hf_;         // of a Hugging Face folder
  std::vector<std::vector<bool>> seen_;  // a tensor, a piece: its checksum has been compared
};

}  // namespace tessera::checkpoint
