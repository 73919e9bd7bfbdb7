// A checkpoint: the whole state of a run at one step, in a folder that is complete or absent.
//
//   checkpoints/1200/index.json        header, tensors and their pieces, checksums; written last
//   checkpoints/1200/pieces-0.bin      the bytes of the pieces of rank 0; one file per rank
//   checkpoints/1200/tokenizer.json    the tokenizer; tokenizer.model for a SentencePiece model
//
// The folder is written as checkpoints/1200.<process>.part. It is renamed only after all its files
// and the folder itself are flushed to disk. So a killed run or a full disk never damages an
// earlier checkpoint. docs/checkpoint_format.md has the format byte by byte.
// Tensors have their global shapes, without padding; a piece is a box of one. Weights in f32 have
// the model's own names ("layer3.attn.qkv.weight"), optimizer state "<name>|moment1", means
// "<name>|average". The ranks that read may differ from those that saved.
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
#include "checkpoint/state_tensor.h"
#include "tensor/tensor.h"

namespace tessera::checkpoint {

// Called before each tensor is copied, with the number of tensors already copied and the total.
using OnTensor = std::function<void(int64_t done, int64_t all)>;

struct CheckpointHeader {
  int64_t step = 0;       // completed optimizer steps
  int64_t tokens = 0;     // tokens trained on
  Tree config;            // the whole run configuration; an empty object in an imported checkpoint
  Tree model;             // the model's configuration (ModelConfig)
  Tree state;             // other state of the run (data position, loss scale); may be null
  std::string version;    // version of the program that wrote the checkpoint
  std::string tokenizer;  // bytes of tokenizer.json or a SentencePiece model; empty: none
  int64_t ranks = 1;      // number of ranks that saved; set by the writer
};

// The ranks that save. With more than one, both functions are collective. `require_no_error`
// receives the reason why this rank failed (empty: it did not), and throws Error on every rank if
// one failed (comm/agree.h). `broadcast` copies the text of rank 0 to all ranks.
struct SaveGroup {
  int64_t rank = 0, ranks = 1;
  std::function<void(const std::string& own)> require_no_error = {};
  std::function<void(std::string&)> broadcast = {};
};

// How to treat a checkpoint that already exists at the path of a new one.
enum class Existing : uint8_t { kIsReplaced, kIsKept };

// A piece of a tensor in a file of the checkpoint.
struct StoredPiece {
  std::vector<int64_t> begin, end;  // the box of the global value that it contains
  int64_t file = 0;                 // index into the checkpoint's files
  int64_t offset = 0, bytes = 0;
  uint64_t checksum = 0;  // XXH3-64 of its bytes
};

// A stored tensor. Its pieces cover the global value exactly once.
struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;
  std::vector<StoredPiece> pieces;
};

// Writes one checkpoint piece by piece. Nothing exists at `folder` before commit(). If commit() is
// not called or fails, the destructor removes what was written. An existing checkpoint at `folder`
// is replaced atomically, or kept: then commit() throws Error, as it does for any other folder that
// is not empty. The constructor, commit() and finish() are called by all ranks. If commit() fails
// on one rank, it throws Error on every rank, and nothing appears at `folder`. Throws Error (full
// disk …), and NumericError for a tensor that contains NaN or infinity: such a state is never
// saved.
class CheckpointWriter {
 public:
  explicit CheckpointWriter(Path folder, SaveGroup group = {},
                            Existing existing = Existing::kIsReplaced);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Sets a function to call when the disk is full. If it returns true, the write is retried.
  void on_full_disk(std::function<bool()> make_space) {
    file_->on_full_disk(std::move(make_space));
  }
  // Writes a piece directly from the view, without a copy, or with StateTensor::fill.
  void add(const StateTensor& tensor);
  // Writes a piece that `fill` computes in parts; `tensor.data` is not used.
  void add_streamed(const StateTensor& tensor, const FillPiece& fill);
  void commit(const CheckpointHeader& header);  // the header of rank 0 is written

  // commit() in two steps that do not wait for other ranks (async_save.h). finish() flushes this
  // rank's pieces to disk, after all of them have been added.
  void finish();
  // Writes the index and renames the folder to its final name. Called on rank 0 once every rank has
  // finished.
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

// The files of a checkpoint are missing, truncated or changed; another checkpoint may be intact. A
// system error (permissions, an unreachable disk, no memory) is a FileError instead, because it is
// not evidence of damage.
class DamagedCheckpoint : public Error {
  using Error::Error;
};

struct HfSource;
struct StoredAdapters;
class DequantizedWeights;

// Reads a checkpoint folder, or a Hugging Face folder as a checkpoint of step 0
// (checkpoint/hf_source.h), which has no checksums. Files are mapped, not loaded, and reading a box
// touches only the bytes of that box, so each rank can read its shards of a large model. The
// constructor checks index.json against its checksum, the file sizes against the index, and the
// tokenizer. The checksum of a piece is checked when the piece is first read. Throws
// DamagedCheckpoint or another Error that names the file and the fault.
class CheckpointReader {
 public:
  explicit CheckpointReader(const Path& folder);
  ~CheckpointReader();
  CheckpointReader(CheckpointReader&&) noexcept;

  const Path& folder() const { return folder_; }
  const CheckpointHeader& header() const { return header_; }
  const std::vector<StoredTensor>& tensors() const { return tensors_; }  // sorted by name
  // Returns a tensor, or nullptr. A weight that is stored in 4 bits is found under its own name, as
  // an f32 tensor without pieces.
  const StoredTensor* find(std::string_view name) const;
  // Returns the weights that are stored in 4 bits, as such tensors, sorted by name.
  const std::vector<StoredTensor>& quantized() const;

  // From now on, finds and reads the exponential mean of a weight under the weight's name, if the
  // checkpoint has one; weights that were not trained have none. Throws Error if there is none at
  // all.
  void use_averages();

  // From now on, finds and reads these adapters too, and the header has their settings, as in a run
  // that trained them; nullptr: none. Throws Error if the checkpoint has adapters of its own.
  void use_adapters(std::shared_ptr<const StoredAdapters> adapters);
  const StoredAdapters* used_adapters() const;  // nullptr: none

  // Reads the box [begin, end) of the global value into `out`, a dense array of the box's shape.
  // Converts among f32, bf16, f16 and f64: widening is exact, narrowing rounds to nearest even.
  // Throws Error if there is no such tensor, the box exceeds its shape, or its bytes are damaged.
  void read(std::string_view name, std::span<const int64_t> begin, std::span<const int64_t> end,
            TensorView out);
  void read(std::string_view name, TensorView out);  // the whole value

  // Returns the mapped bytes of a tensor that is stored in one piece, after checking its checksum;
  // empty if the bytes are not contiguous in the order of the tensor.
  std::span<const std::byte> whole(const StoredTensor& tensor);

  // Checks every piece that has not been read yet. Returns the bytes checked.
  int64_t verify();

 private:
  std::span<const std::byte> checked(const StoredTensor& tensor, size_t piece);
  const StoredTensor* stored(std::string_view name) const;

  Path folder_;
  CheckpointHeader header_;
  std::vector<StoredTensor> tensors_;
  std::vector<MappedFile> files_;
  std::unique_ptr<HfSource> hf_;                     // null unless this is a Hugging Face folder
  std::unique_ptr<DequantizedWeights> dequantized_;  // null for a Hugging Face folder
  struct UsedAdapters;
  std::unique_ptr<UsedAdapters> used_;
  std::vector<std::vector<bool>> seen_;  // [tensor][piece]: its checksum has been checked
  bool uses_averages_ = false;
};

}  // namespace tessera::checkpoint
