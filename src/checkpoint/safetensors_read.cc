// Reads safetensors files: 8 bytes (little-endian) with the size of the header, a JSON header with
// type, shape and data_offsets of each tensor, then the data. The header is checked completely
// before any byte of a tensor is used: offsets must tile the data without gap or overlap, as the
// format requires, and each size must equal that of shape and type.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "base/error.h"
#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tree_fields.h"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little,
              "safetensors are little endian and read without conversion");

constexpr uint64_t kMaxHeader = 100'000'000;  // the format's own limit

struct TypeRow {
  std::string_view name;
  int64_t bits;
  std::optional<DType> dtype;
};
constexpr std::array<TypeRow, 15> kTypes{{{"F32", 32, DType::kF32},
                                          {"BF16", 16, DType::kBF16},
                                          {"F16", 16, DType::kF16},
                                          {"F64", 64, DType::kF64},
                                          {"I32", 32, DType::kI32},
                                          {"I64", 64, DType::kI64},
                                          {"U16", 16, DType::kU16},
                                          {"U8", 8, DType::kU8},
                                          {"BOOL", 8, std::nullopt},
                                          {"I8", 8, std::nullopt},
                                          {"I16", 16, std::nullopt},
                                          {"U32", 32, std::nullopt},
                                          {"U64", 64, std::nullopt},
                                          {"F8_E4M3", 8, std::nullopt},
                                          {"F8_E5M2", 8, std::nullopt}}};

// Returns the row of a type, or nullptr. Types without a DType have only a size, so that a file
// that contains one can be checked and its other tensors read.
const TypeRow* type_row(std::string_view name) {
  const auto at =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& r) { return r.name == name; });
  return at != kTypes.end() ? at : nullptr;
}

// Returns the bytes of a tensor. Throws Error if the number does not fit in 63 bits.
int64_t bytes_of(const SafetensorsEntry& e, int64_t bits, const std::string& source) {
  int64_t bytes = bits / 8;
  for (const int64_t n : e.shape.dims())
    if (__builtin_mul_overflow(bytes, n, &bytes))
      throw Error("{}: '{}' cannot have the shape {}", source, e.name, to_string(e.shape));
  return bytes;
}

// Reads an entry. Throws Error if the size by data_offsets differs from that of type and shape,
// which is damage that the offsets alone would not show.
SafetensorsEntry entry_from_tree(const std::string& name, const Tree& tree,
                                 const std::string& source) {
  SafetensorsEntry e;
  e.name = name;
  e.type = text_member(tree, "dtype", source);
  const TypeRow* row = type_row(e.type);
  if (!row) throw Error("{}: '{}' has the unknown type '{}'", source, name, e.type);
  e.dtype = row->dtype;
  e.shape = Shape(extents_member(tree, "shape", source));
  const auto offsets = extents_member(tree, "data_offsets", source);
  if (offsets.size() != 2 || offsets[0] > offsets[1])
    throw Error("{}: '{}' has data_offsets {}, expected [begin, end] with begin ≤ end", source,
                name, to_string(Shape(offsets)));
  e.begin = offsets[0];
  e.end = offsets[1];
  const int64_t wanted = bytes_of(e, row->bits, source);
  if (e.end - e.begin != wanted)
    throw Error("{}: '{}' has {} bytes of data, but its shape {} of {} needs {}", source, name,
                e.end - e.begin, to_string(e.shape), e.type, wanted);
  return e;
}

// Sorts the entries by position and checks that they cover the data without gap or overlap.
void check_order(std::vector<SafetensorsEntry>& entries, int64_t data_bytes,
                 const std::string& source) {
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  // Sorted by their begins, the entries tile the data if and only if each begins at the end of the
  // one before it.
  int64_t at = 0;
  for (const SafetensorsEntry& e : entries) {
    if (e.begin != at)
      throw Error("{}: '{}' begins at byte {} of the data, but the tensor before it ends at {}: {}",
                  source, e.name, e.begin, at, e.begin < at ? "they overlap" : "there is a gap");
    at = e.end;
  }
  if (at != data_bytes)
    throw Error(
        "{}: the tensors need {} bytes, but the file has {}. It was probably truncated while "
        "being copied: copy it again.",
        source, at, data_bytes);
}

}  // namespace

SafetensorsFile::SafetensorsFile(const Path& path) : file_(path) {
  const std::string source = path.string();
  const auto all = file_.bytes();
  refuse_lfs_pointer({reinterpret_cast<const char*>(all.data()), all.size()}, source);
  // The size is compared with the limit before anything is parsed or allocated.
  uint64_t header_bytes = 0;
  if (all.size() < sizeof(header_bytes))
    throw Error("{}: has {} bytes, too few for a safetensors file", source, all.size());
  std::memcpy(&header_bytes, all.data(), sizeof(header_bytes));
  if (header_bytes > kMaxHeader || header_bytes > all.size() - sizeof(header_bytes))
    throw Error(
        "{}: by its length field, its header has {} bytes, but {} bytes follow it and the limit is "
        "{}. It is not a safetensors file, or it was truncated.",
        source, header_bytes, all.size() - sizeof(header_bytes), kMaxHeader);
  const std::string_view text(reinterpret_cast<const char*>(all.data()) + sizeof(header_bytes),
                              header_bytes);
  const std::string header = source + " (header)";
  const Tree root = parse_json(text, header);
  if (!root.as_members())
    throw Error("{}: found {}, expected an object", place_of(header, root), kind_of(root));
  for (const auto& [name, tree] : *root.as_members()) {
    if (name != "__metadata__") {
      entries_.push_back(entry_from_tree(name, tree, header));
      continue;
    }
    if (!tree.as_members())
      throw Error("{}: __metadata__ is {}, expected an object", place_of(header, tree),
                  kind_of(tree));
    for (const auto& [key, value] : *tree.as_members())
      metadata_[key] = text_of(value, key, header);
  }
  data_ = sizeof(header_bytes) + header_bytes;
  check_order(entries_, all.size() - data_, source);
}

std::span<const std::byte> SafetensorsFile::bytes(const SafetensorsEntry& entry) const {
  return file_.bytes().subspan(data_ + entry.begin, entry.end - entry.begin);
}

// A folder has one file, or several with an index that maps each tensor to its file. The index has
// precedence, as in transformers.
SafetensorsFolder::SafetensorsFolder(const Path& folder) {
  const Path one = folder / "model.safetensors", index = folder / "model.safetensors.index.json";
  std::error_code error;
  if (fs::exists(index, error)) {
    open_indexed(folder, index);
    return;
  }
  if (fs::exists(one, error)) {
    add_file(one);
    return;
  }
  // Reading a pickle would execute code from the file.
  for (const char* old : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
    if (fs::exists(folder / old, error))
      throw Error(
          "{}: has {}, a Python pickle, which Tessera does not read. Convert it once with   "
          "python -c \"from transformers import AutoModelForCausalLM as M; "
          "M.from_pretrained('{}').save_pretrained('{}-safetensors')\"",
          folder.string(), old, folder.string(), folder.string());
  throw Error("{}: has neither model.safetensors nor model.safetensors.index.json",
              folder.string());
}

void SafetensorsFolder::add_file(const Path& path) {
  files_.emplace_back(path);
  const auto& entries = files_.back().entries();
  for (size_t i = 0; i < entries.size(); ++i)
    if (!where_.try_emplace(entries[i].name, files_.size() - 1, i).second)
      throw Error("{}: the tensor '{}' is in another file as well", path.string(), entries[i].name);
}

void SafetensorsFolder::open_indexed(const Path& folder, const Path& index) {
  const std::string source = index.string();
  const Tree root = parse_json(read_file(index), source);
  const Tree& map = member(root, "weight_map", source);
  if (!map.as_members())
    throw Error("{}: weight_map is {}, expected an object", place_of(source, map), kind_of(map));
  std::map<std::string, size_t> opened;
  for (const auto& [name, file] : *map.as_members()) {
    const std::string& file_name = text_of(file, name, source);
    // A name with a slash could refer to a file outside the folder.
    if (file_name.empty() || file_name.find('/') != std::string::npos)
      throw Error("{}: '{}' is not the name of a file in this folder", place_of(source, file),
                  file_name);
    const auto [at, first] = opened.try_emplace(file_name, opened.size());
    // Each file is opened once, at its first tensor. The map must agree with the files themselves.
    if (first) add_file(folder / file_name);
    const auto found = where_.find(name);
    if (found == where_.end() || found->second.first != at->second)
      throw Error("{}: maps '{}' to {}, but that file does not contain it", place_of(source, file),
                  name, file_name);
  }
}

std::optional<SafetensorsFolder::Found> SafetensorsFolder::find(const std::string& name) const {
  const auto at = where_.find(name);
  if (at == where_.end()) return std::nullopt;
  const SafetensorsFile& file = files_[at->second.first];
  const SafetensorsEntry& entry = file.entries()[at->second.second];
  return Found{&entry, file.bytes(entry)};
}

std::vector<std::string> SafetensorsFolder::names() const {
  std::vector<std::string> names;
  for (const auto& [name, where] : where_) names.push_back(name);
  return names;
}

}  // namespace tessera::checkpoint
