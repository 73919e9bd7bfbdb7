// Reads and writes the safetensors format of Hugging Face. Files are validated completely when read
// and streamed when written.
//
//   8 bytes   length N of the header, little endian
//   N bytes   JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …,
//             "__metadata__": {text: text}}; may end in spaces
//   the rest  the tensors' bytes, little endian, row-major; offsets are relative to its start
//
// A large model is several such files and an index, model.safetensors.index.json, whose
// "weight_map" maps each tensor to its file.
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
  std::string type;            // as in the file: "BF16", "F8_E4M3", …
  std::optional<DType> dtype;  // nullopt if Tessera has no such type; the bytes can still be read
  Shape shape;
  int64_t begin = 0, end = 0;  // bytes, relative to the start of the data
};

// One mapped file. The constructor checks the whole header: types, shapes, and that the tensors
// cover the data without gap or overlap. Throws Error that names the file, the tensor and the
// numbers.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const Path& path);

  const Path& path() const { return file_.path(); }
  const std::vector<SafetensorsEntry>& entries() const { return entries_; }  // in file order
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  std::span<const std::byte> bytes(const SafetensorsEntry& entry) const;

 private:
  MappedFile file_;
  std::vector<SafetensorsEntry> entries_;
  std::map<std::string, std::string> metadata_;
  size_t data_ = 0;  // offset of the tensors' bytes in the file
};

// The tensors of a folder, in model.safetensors or in the files that its index names.
class SafetensorsFolder {
 public:
  // Throws Error if a file is invalid or missing, if the index and the files disagree, or if there
  // is only a pytorch_model.bin (the message has a command that converts it).
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
  std::map<std::string, std::pair<size_t, size_t>> where_;  // name → index of file, of entry
};

// A tensor to write. The header, which precedes all data, is made from a list of these.
struct SafetensorsPlan {
  std::string name;
  DType dtype = DType::kF32;
  Shape shape;

  int64_t bytes() const { return shape.elements() * size_of(dtype); }
};

// Writes `tensors` to `path` in the given order. `fill(i)` returns the function that fills tensor
// i. The file has a temporary name until it is complete. Its metadata is {"format": "pt"}, which
// transformers requires.
void write_safetensors(const Path& path, std::span<const SafetensorsPlan> tensors,
                       const std::function<FillPiece(size_t)>& fill);

// Writes `tensors` to files model-00001-of-00003.safetensors of at most `max_file_bytes` each (a
// larger tensor has a file of its own) and their index. If one file is enough, writes only
// model.safetensors. Returns the names of the files without the index.
std::vector<std::string> write_safetensors_folder(const Path& folder,
                                                  std::span<const SafetensorsPlan> tensors,
                                                  int64_t max_file_bytes,
                                                  const std::function<FillPiece(size_t)>& fill);

}  // namespace tessera::checkpoint
