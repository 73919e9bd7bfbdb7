// CheckpointWriter: every rank writes its pieces to its own file, then rank 0 merges the lists of
// pieces into the index and renames the folder.
//
// Order of a save, for crash safety: each rank flushes its pieces file and then writes its list;
// when all ranks are done, rank 0 writes the index, flushes the folder, and renames it from its
// temporary name to <step>. A folder of that name is therefore always complete.
#include <algorithm>
#include <array>
#include <exception>
#include <map>

#include "base/shape.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checksum.h"
#include "checkpoint/durable.h"
#include "checkpoint/finite.h"
#include "checkpoint/index.h"
#include "checkpoint/tree_fields.h"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;

// Bytes hashed and written at a time: large enough for efficient writes, and small enough to stay
// in the cache between the two.
constexpr int64_t kChunk = int64_t{4} << 20;

// Collective. Calls `part` on each rank. If it fails on any rank, throws Error on every rank, so
// that no rank waits for one that has failed.
template <class F>
void on_all(const SaveGroup& group, F part) {
  if (group.ranks == 1) return part();
  std::string failed;
  try {
    part();
  } catch (const std::exception& e) {
    failed = e.what();
    if (failed.empty()) failed = "an error without a message";
  }
  group.require_no_error(failed);
}

Box box_of(const StateTensor& t) {
  if (t.begin.empty() && t.end.empty()) return whole_box(t.shape);
  return {t.begin, t.end};
}

void refuse_non_finite(const NonFinite& found, const StateTensor& t) {
  if (!found) return;
  const Box box = box_of(t);
  throw NumericError("{}{}", describe(found, t.name, box.extents()),
                     box == whole_box(t.shape)
                         ? std::string()
                         : fmt::format(", in the part of {} that begins at {}", to_string(t.shape),
                                       to_string(Shape(box.begin))));
}

// Merges the pieces of all ranks by tensor name and sorts them by name. CHECKs that every tensor is
// covered exactly once: a missing or duplicate piece is a bug in the sharding.
std::vector<StoredTensor> merge(std::vector<StoredTensor> pieces) {
  std::map<std::string, StoredTensor> by_name;
  for (StoredTensor& t : pieces) {
    const auto [at, first] = by_name.try_emplace(t.name, t);
    if (first) continue;
    StoredTensor& into = at->second;
    CHECK(into.dtype == t.dtype && into.shape == t.shape, "'{}' is {} {} and {} {}", t.name,
          name_of(into.dtype), to_string(into.shape), name_of(t.dtype), to_string(t.shape));
    into.pieces.insert(into.pieces.end(), t.pieces.begin(), t.pieces.end());
  }
  std::vector<StoredTensor> merged;
  for (auto& [name, t] : by_name) {
    std::vector<Box> boxes;
    for (const StoredPiece& p : t.pieces) boxes.push_back({p.begin, p.end});
    CHECK(tile(boxes, t.shape), "the {} pieces of '{}' do not cover {} once", t.pieces.size(), name,
          to_string(t.shape));
    merged.push_back(std::move(t));
  }
  return merged;
}

}  // namespace

TensorView data_of(const StateTensor& piece, std::vector<std::byte>& memory) {
  if (!piece.fill) return piece.data;
  TensorView data = piece.data;
  memory.resize(static_cast<size_t>(data.bytes()));
  data.data = memory.data();
  piece.fill(0, data.elements(), memory.data());
  return data;
}

CheckpointWriter::CheckpointWriter(Path folder, SaveGroup group, Existing existing)
    : folder_(std::move(folder)), group_(std::move(group)), existing_(existing) {
  // "checkpoint/" and "checkpoint" name the same folder.
  if (!folder_.has_filename()) folder_ = folder_.parent_path();
  std::string part;
  std::exception_ptr failed;
  // Rank 0 creates the folder and broadcasts its name. On failure it broadcasts an empty name, so
  // that the other ranks do not wait forever.
  try {
    if (group_.rank == 0) part = make_part_folder(folder_).string();
  } catch (...) {
    failed = std::current_exception();
  }
  if (group_.ranks > 1) group_.broadcast(part);
  if (failed) std::rethrow_exception(failed);
  if (part.empty()) throw Error("{}: rank 0 could not create its folder", folder_.string());
  part_ = part;
  file_ = std::make_unique<FileWriter>(part_ / pieces_file(group_.rank));
}

CheckpointWriter::~CheckpointWriter() {
  file_.reset();
  if (published_ || group_.rank != 0) return;
  std::error_code ignored;  // the next save removes what cannot be removed now
  fs::remove_all(part_, ignored);
}

StoredPiece& CheckpointWriter::begin_piece(const StateTensor& tensor) {
  const Box box = box_of(tensor);
  CHECK(is_inside(box, tensor.shape), "the piece of '{}' exceeds its shape {}", tensor.name,
        to_string(tensor.shape));
  // Pieces are aligned, so that readers can use mapped tensors with vector loads.
  static constexpr std::array<char, kPieceAlignment> kZeros{};
  const int64_t misplaced = file_->written() % kPieceAlignment;
  if (misplaced > 0) file_->write(kZeros.data(), kPieceAlignment - misplaced);
  StoredPiece piece{
      box.begin, box.end, group_.rank, file_->written(), box.elements() * size_of(tensor.dtype), 0};
  tensors_.push_back({tensor.name, tensor.dtype, tensor.shape, {std::move(piece)}});
  return tensors_.back().pieces.back();
}

void CheckpointWriter::add(const StateTensor& tensor) {
  if (tensor.fill) return add_streamed(tensor, tensor.fill);
  const auto* data = static_cast<const std::byte*>(tensor.data.data);
  CHECK(tensor.data.dtype == tensor.dtype, "'{}' is {}, its data {}", tensor.name,
        name_of(tensor.dtype), name_of(tensor.data.dtype));
  // A rank may own no elements of a sharded tensor. A tensor without elements is still stored.
  if (box_of(tensor).elements() == 0 && tensor.shape.elements() > 0) return;
  StoredPiece& piece = begin_piece(tensor);
  CHECK(tensor.data.bytes() == piece.bytes, "the piece of '{}' has {} bytes, its data {}",
        tensor.name, piece.bytes, tensor.data.bytes());
  Checksum checksum;
  NonFinite non_finite;
  const int64_t element_bytes = size_of(tensor.dtype);
  // One pass over memory tests for NaN and infinity, computes the checksum and writes the data.
  for (int64_t at = 0; at < piece.bytes; at += kChunk) {
    const int64_t n = std::min(kChunk, piece.bytes - at);
    checkpoint::add(non_finite, find_non_finite(data + at, tensor.dtype, n / element_bytes),
                    at / element_bytes);
    checksum.add({data + at, static_cast<size_t>(n)});
    file_->write(data + at, n);
  }
  // Thrown after the loop, so that the message counts all such elements of the piece.
  refuse_non_finite(non_finite, tensor);
  piece.checksum = checksum.value();
}

void CheckpointWriter::add_streamed(const StateTensor& tensor, const FillPiece& fill) {
  if (box_of(tensor).elements() == 0 && tensor.shape.elements() > 0) return;
  StoredPiece& piece = begin_piece(tensor);
  const int64_t element_bytes = size_of(tensor.dtype), elements = piece.bytes / element_bytes;
  const int64_t step = std::min(kChunk / element_bytes, std::max<int64_t>(elements, 1));
  std::vector<std::byte> chunk(step * element_bytes);
  Checksum checksum;
  NonFinite non_finite;
  for (int64_t first = 0; first < elements; first += step) {
    const int64_t count = std::min(step, elements - first);
    const std::span<std::byte> bytes(chunk.data(), count * element_bytes);
    fill(first, count, bytes.data());
    checkpoint::add(non_finite, find_non_finite(bytes.data(), tensor.dtype, count), first);
    checksum.add(bytes);
    file_->write(bytes.data(), bytes.size());
  }
  refuse_non_finite(non_finite, tensor);
  piece.checksum = checksum.value();
}

// Merges the lists of pieces of all ranks, and writes the tokenizer and then the index. Runs on
// rank 0.
void CheckpointWriter::write_index(const CheckpointHeader& header) {
  CheckpointIndex index;
  index.header = header;
  index.header.ranks = group_.ranks;
  for (int64_t rank = 0; rank < group_.ranks; ++rank) {
    const Path path = part_ / pieces_file(rank), list = part_ / piece_list_file(rank);
    // Rank 0 sees the other ranks' files only on a shared file system.
    std::error_code error;
    const auto bytes = fs::file_size(path, error);
    if (error)
      throw Error(
          "{}: rank 0 cannot access the file: {}. Ranks on several hosts must save to a shared "
          "file system.",
          path.string(), error.message());
    index.files.push_back({pieces_file(rank), static_cast<int64_t>(bytes)});
    if (rank == 0) continue;
    auto theirs = tensors_from_tree(parse_json(read_file(list), list.string()), list.string());
    std::move(theirs.begin(), theirs.end(), std::back_inserter(tensors_));
    fs::remove(list, error);
  }
  index.tensors = merge(std::move(tensors_));
  if (!header.tokenizer.empty()) {
    index.has_tokenizer = true;
    index.tokenizer_bytes = std::ssize(header.tokenizer);
    index.tokenizer_checksum = checksum_of(header.tokenizer);
    write_file(part_ / tokenizer_file_name(header.tokenizer), header.tokenizer);
  }
  write_file(part_ / kIndexFile, to_text(index));
}

void CheckpointWriter::finish() {
  CHECK(!finished_, "{} is finished twice", folder_.string());
  finished_ = true;
  file_->commit();
  if (group_.rank != 0)
    write_file(part_ / piece_list_file(group_.rank), to_json(to_tree(tensors_)));
}

void CheckpointWriter::publish(const CheckpointHeader& header) {
  CHECK(finished_ && !published_ && group_.rank == 0, "{} is published by rank {}",
        folder_.string(), group_.rank);
  write_index(header);
  // The entries of the folder must be on disk before the rename makes it visible.
  sync_folder(part_);
  std::error_code none;
  // Only a folder with an index is a checkpoint that may be replaced; anything else at that path is
  // an error.
  if (existing_ == Existing::kIsReplaced && fs::exists(folder_ / kIndexFile, none))
    put_folder(part_, folder_);
  else
    put_new_folder(part_, folder_);
  published_ = true;
}

void CheckpointWriter::commit(const CheckpointHeader& header) {
  on_all(group_, [this] { finish(); });
  on_all(group_, [&] {
    if (group_.rank == 0) publish(header);
  });
}

}  // namespace tessera::checkpoint
