// Writes safetensors files. All offsets follow from types and shapes, so the header is written
// first and the data is streamed after it.
#include <algorithm>

#include "base/error.h"
#include "base/tree.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tree_fields.h"

namespace tessera::checkpoint {
namespace {

constexpr int64_t kChunk = int64_t{4} << 20;  // bytes filled and written at a time

std::string type_text(DType t) {
  std::string s(name_of(t));
  std::transform(s.begin(), s.end(), s.begin(), [](char c) {
    return static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  });
  return s;
}

// Returns the header, which lists the tensors in the order of their data with their byte ranges. It
// is padded with spaces, which JSON allows.
std::string header_of(std::span<const SafetensorsPlan> tensors) {
  Tree root = Tree::object(), metadata = Tree::object();
  metadata.set("format", Tree(std::string("pt")));
  root.set("__metadata__", std::move(metadata));
  int64_t at = 0;
  for (const SafetensorsPlan& t : tensors) {
    Tree entry = Tree::object(), shape = Tree::list();
    for (const int64_t n : t.shape.dims()) shape.push(Tree(n));
    entry.set("dtype", Tree(type_text(t.dtype)));
    entry.set("shape", std::move(shape));
    entry.set("data_offsets", integer_list({at, at + t.bytes()}));
    root.set(t.name, std::move(entry));
    at += t.bytes();
  }
  std::string text = to_json(root);
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that the data is aligned
  return text;
}

}  // namespace

void write_safetensors(const Path& path, std::span<const SafetensorsPlan> tensors,
                       const std::function<FillPiece(size_t)>& fill) {
  FileWriter file(path);
  const std::string header = header_of(tensors);
  const uint64_t header_bytes = header.size();
  file.write(&header_bytes, sizeof(header_bytes));
  file.write(header.data(), header.size());
  // Elements are produced and written in chunks, so memory does not grow with the largest tensor.
  std::vector<std::byte> chunk;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const int64_t element_bytes = size_of(tensors[i].dtype);
    const int64_t elements = tensors[i].shape.elements(), step = kChunk / element_bytes;
    const FillPiece fill_piece = fill(i);
    for (int64_t first = 0; first < elements; first += step) {
      const int64_t count = std::min(step, elements - first);
      chunk.resize(count * element_bytes);
      fill_piece(first, count, chunk.data());
      file.write(chunk.data(), chunk.size());
    }
  }
  file.commit();
}

std::vector<std::string> write_safetensors_folder(const Path& folder,
                                                  std::span<const SafetensorsPlan> tensors,
                                                  int64_t max_file_bytes,
                                                  const std::function<FillPiece(size_t)>& fill) {
  // Fills files greedily up to the limit; a larger tensor has a file of its own. File names contain
  // the number of files, so the division is planned before anything is written.
  std::vector<size_t> starts{0};  // index of the first tensor of each file
  int64_t bytes = 0, total = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (bytes > 0 && bytes + tensors[i].bytes() > max_file_bytes) {
      starts.push_back(i);
      bytes = 0;
    }
    bytes += tensors[i].bytes();
    total += tensors[i].bytes();
  }
  std::vector<std::string> names;
  Tree map = Tree::object();
  for (size_t f = 0; f < starts.size(); ++f) {
    const size_t from = starts[f], to = f + 1 < starts.size() ? starts[f + 1] : tensors.size();
    names.push_back(starts.size() == 1
                        ? "model.safetensors"
                        : fmt::format("model-{:05}-of-{:05}.safetensors", f + 1, starts.size()));
    write_safetensors(folder / names.back(), tensors.subspan(from, to - from),
                      [&](size_t i) { return fill(from + i); });
    for (size_t i = from; i < to; ++i) map.set(tensors[i].name, Tree(names.back()));
  }
  if (starts.size() == 1) return names;
  Tree root = Tree::object(), metadata = Tree::object();
  metadata.set("total_size", Tree(total));
  root.set("metadata", std::move(metadata));
  root.set("weight_map", std::move(map));
  // transformers finds the file of each tensor through this index.
  write_file(folder / "model.safetensors.index.json", to_json(root, 2) + "\n");
  return names;
}

}  // namespace tessera::checkpoint
