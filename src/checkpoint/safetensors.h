// The safetensors format of Hugging Face, read without trust and written as a stream.
//
//   8 bytes   length N of the header, little endian
//   N bytes   JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …,
//             "__metadata__": {text: text}}; may end in spaces
//   the rest  the tensors' bytes, little endian, row-major; offsets count from here
//
// A large model is several such files beside an index, model.safetensors.index.json, whose
// "weight_map" says which file has which tensor.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"
#include "base/shape.h"
#include "checkpoint/checkpoint.h"

namespace tessera::checkpoint {

struct SafetensorsEntry {
  std::string name;
  std::string type;            // as the file says: "BF16", "F8_E4M3", …
  std::optional<DType> dtype;  // nothing if Tessera has no such type; the bytes can still be had
  Shape shape;
  int64_t begin = 0, end = 0;  // bytes, from the start of the data
};

// One file, mapped. The constructor checks everything that the header says: types, shapes, and
// that the tensors fill the data without gap or overlap; it throws Error that names the file, the
// tensor and the numbers.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const Path& path);

  const Path& path() const { return file_.path(); }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }  // by position
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  std::span<const std::byte> bytes(const SafetensorsEntry& entry) const;

 private:
  MappedFile file_;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
  size_t data_ = 0;  // where the tensors' bytes begin
};

// The tensors of a folder: of model.safetensors, or of the files that its index names.
class SafetensorsFolder {
 public:
  // Throws Error, also where the index and the files disagree, and for a folder that has only
  // pytorch_model.bin (it says how to convert it).
  explicit SafetensorsFolder(const Path& folder);

  struct Found {
    const SafetensorsEntry* entry = nullptr;
    std::span<const std::byte> bytes;
  };
  std::optional<Found> find(const std::string& name) const;
  std::vector<std::string> names() const;  // sorted

 private:
  void open_indexed(const Path& folder, const Path& index);
  void add_file(const Path& path);

  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::pair<size_t, size_t>> where_;  // name: file, entry
};

// What is to be written: the header must be known before the first byte of data.
struct SafetensorsPlan {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;

  int64_t bytes() const { return shape.elements() * size_of(dtype); }
};

// Writes `tensors` to `path` in the order given (beside, then renamed), each filled piece by piece
// by `fill(i)`. Metadata is {"format": "pt"}, which transformers asks for.
void write_safetensors(const Path& path, std::span<const SafetensorsPlan> tensors,
                       const std::function<FillPiece(size_t)>& fill);

// The same in several files model-00001-of-00003.safetensors of at most `max_file_bytes` each (a
// tensor that is larger has a file of its own) and their index; one file is model.safetensors
// without an index. Returns the names of the files.
std::vector<std::string> write_safetensors_folder(const Path& folder,
                                                  std::span<const SafetensorsPlan> tensors,
                                                  int64_t max_file_bytes,
                                                  const std::function<FillPiece(size_t)>& fill);

}  // namespace tessera::checkpoint
