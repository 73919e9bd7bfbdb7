// CheckpointReader: checks the index against the data files, and reads whole tensors or boxes of
// them.
//
// Data files are mapped. The checksum of a piece is verified once, when the piece is first read, so
// that damage is found before any value is used. A Hugging Face folder is read through the same
// interface, without checksums.
#include <algorithm>
#include <cerrno>

#include "base/config.h"
#include "base/mapped_fault.h"
#include "base/shape.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checksum.h"
#include "checkpoint/convert.h"
#include "checkpoint/dequantized.h"
#include "checkpoint/folders.h"
#include "checkpoint/hf_source.h"
#include "checkpoint/index.h"
#include "checkpoint/stored_adapters.h"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;

// Calls `read`, which reads a file of a checkpoint. A missing file, or something that is not a
// file, counts as damage, after which an older checkpoint may be used. A system error does not: the
// file may be intact and only unreachable now.
template <class Read>
auto of_checkpoint(Read&& read) {
  try {
    return read();
  } catch (const NotAFile& error) {
    throw DamagedCheckpoint("{}", error.what());
  } catch (const FileError& error) {
    if (error.code() == ENOENT) throw DamagedCheckpoint("{}", error.what());
    throw;
  }
}

constexpr const char* kAverageSuffix = "|average";

bool is_there(const Path& path) {
  std::error_code error;
  const bool there = fs::exists(path, error);
  if (error && error != std::errc::not_a_directory)
    throw FileError(path, "cannot be read", error.value());
  return there;
}

CheckpointIndex read_index(const Path& path) {
  const std::string text = of_checkpoint([&] { return read_file(path); });
  try {
    return parse_index(text, path.string());
  } catch (const OtherFormat&) {
    throw;
  } catch (const Error& error) {
    throw DamagedCheckpoint("{}", error.what());
  }
}

std::string read_tokenizer(const Path& path, const CheckpointIndex& index) {
  std::string text = of_checkpoint([&] { return read_file(path); });
  if (std::ssize(text) != index.tokenizer_bytes || checksum_of(text) != index.tokenizer_checksum)
    throw DamagedCheckpoint(
        "{}: has {} bytes with checksum {}, expected {} bytes with checksum {} by the index: it "
        "was changed or damaged after it was written. Restore the file, or use another "
        "checkpoint.",
        path.string(), text.size(), checksum_text(checksum_of(text)), index.tokenizer_bytes,
        checksum_text(index.tokenizer_checksum));
  return text;
}

void check_size(const Path& path, int64_t found, int64_t wanted) {
  if (found == wanted) return;
  throw DamagedCheckpoint(
      "{}: has {} bytes, expected {} by the index: it was {} after it was written. Use another "
      "checkpoint, or copy this one again.",
      path.string(), found, wanted, found < wanted ? "truncated" : "changed");
}

}  // namespace

// Adapters that are read in addition to the stored tensors.
struct CheckpointReader::UsedAdapters {
  std::shared_ptr<const StoredAdapters> adapters;
  std::vector<StoredTensor> tensors;  // sorted by name, without pieces
  Tree config;                        // the configuration in the header, without adapters
};

namespace {

const StoredTensor* find_sorted(const std::vector<StoredTensor>& tensors, std::string_view name) {
  const auto at = std::lower_bound(tensors.begin(), tensors.end(), name,
                                   [](const auto& t, std::string_view n) { return t.name < n; });
  return at != tensors.end() && at->name == name ? &*at : nullptr;
}

}  // namespace

CheckpointReader::CheckpointReader(const Path& folder) : folder_(folder) {
  if (!is_there(folder))
    throw DamagedCheckpoint("{}: there is no such checkpoint", folder.string());
  if (is_hf_folder(folder)) {
    hf_ = std::make_unique<HfSource>(open_hf(folder));
    header_ = hf_->header;
    tensors_ = hf_->tensors;
    // A Hugging Face folder has no checksums to verify.
    for (const StoredTensor& t : tensors_) seen_.emplace_back(t.pieces.size(), true);
    return;
  }
  const Path path = folder / kIndexFile;
  if (!is_there(path))
    throw DamagedCheckpoint("{}: is not a checkpoint: it has no {}", folder.string(), kIndexFile);
  CheckpointIndex index = read_index(path);
  header_ = std::move(index.header);
  tensors_ = std::move(index.tensors);
  for (const StoredFile& f : index.files) {
    files_.push_back(of_checkpoint([&] { return MappedFile(folder / f.name); }));
    check_size(folder / f.name, std::ssize(files_.back().bytes()), f.bytes);
  }
  if (index.has_tokenizer) {
    const bool pieces = is_there(folder / kSentencePieceFile);
    header_.tokenizer =
        read_tokenizer(folder / (pieces ? kSentencePieceFile : kTokenizerFile), index);
  }
  for (const StoredTensor& t : tensors_) seen_.emplace_back(t.pieces.size(), false);
  dequantized_ = std::make_unique<DequantizedWeights>(*this);
}

CheckpointReader::~CheckpointReader() = default;
CheckpointReader::CheckpointReader(CheckpointReader&&) noexcept = default;

void CheckpointReader::use_averages() {
  const auto is_average = [](const StoredTensor& t) { return t.name.ends_with(kAverageSuffix); };
  if (std::none_of(tensors_.begin(), tensors_.end(), is_average))
    throw Error(
        "{}: has no exponential moving average of the weights, because it was trained without "
        "optimizer.ema. "
        "Use --weights trained, or another checkpoint.",
        folder_.string());
  uses_averages_ = true;
}

const StoredTensor* CheckpointReader::find(std::string_view name) const {
  if (uses_averages_)
    if (const StoredTensor* average = stored(std::string(name) + kAverageSuffix)) return average;
  const StoredTensor* found = stored(name);
  if (found == nullptr && dequantized_) found = dequantized_->find(name);
  return found == nullptr && used_ ? find_sorted(used_->tensors, name) : found;
}

void CheckpointReader::use_adapters(std::shared_ptr<const StoredAdapters> adapters) {
  if (used_) header_.config = std::move(used_->config);
  used_.reset();
  if (adapters == nullptr) return;
  require_no_adapters(*this);
  used_ = std::make_unique<UsedAdapters>();
  used_->config = header_.config;
  for (const auto& [name, t] : adapters->tensors)
    used_->tensors.push_back({name, DType::kF32, t.shape, {}});
  AdapterSettings settings = adapters->settings;
  header_.config.set("lora", tessera::to_tree(settings));
  used_->adapters = std::move(adapters);
}

const StoredAdapters* CheckpointReader::used_adapters() const {
  return used_ ? used_->adapters.get() : nullptr;
}

const std::vector<StoredTensor>& CheckpointReader::quantized() const {
  static const std::vector<StoredTensor> kNone;
  return dequantized_ ? dequantized_->tensors() : kNone;
}

const StoredTensor* CheckpointReader::stored(std::string_view name) const {
  return find_sorted(tensors_, name);
}

std::span<const std::byte> CheckpointReader::checked(const StoredTensor& tensor, size_t piece) {
  const StoredPiece& p = tensor.pieces[piece];
  if (hf_) return hf_->pieces[&tensor - tensors_.data()][piece].bytes;
  const MappedFile& file = files_[p.file];
  const auto bytes = file.bytes().subspan(p.offset, p.bytes);
  const size_t t = &tensor - tensors_.data();
  // The checksum is computed only once per piece. This also loads the bytes into the page cache.
  if (seen_[t][piece]) return bytes;
  const uint64_t found = checksum_of(bytes);
  // A page that could not be read appears as zeros. That is reported instead of a wrong checksum.
  require_mapped_reads();
  if (found != p.checksum)
    throw DamagedCheckpoint(
        "{}: the {} bytes at {} ('{}') have the checksum {}, expected {}: the file was damaged "
        "after it was written. Use another checkpoint, or copy this one again.",
        file.path().string(), p.bytes, p.offset, tensor.name, checksum_text(found),
        checksum_text(p.checksum));
  seen_[t][piece] = true;
  return bytes;
}

void CheckpointReader::read(std::string_view name, TensorView out) {
  const StoredTensor* t = find(name);
  const Box all = t ? whole_box(t->shape) : Box{};
  read(name, all.begin, all.end, std::move(out));
}

void CheckpointReader::read(std::string_view name, std::span<const int64_t> begin,
                            std::span<const int64_t> end, TensorView out) {
  const StoredTensor* t = find(name);
  if (!t) throw Error("{}: has no tensor '{}'", folder_.string(), name);
  const Box box{{begin.begin(), begin.end()}, {end.begin(), end.end()}};
  if (!is_inside(box, t->shape))
    throw Error("{}: '{}' has the shape {}, which the requested box, {} to {}, exceeds",
                folder_.string(), name, to_string(t->shape), to_string(Shape(box.begin)),
                to_string(Shape(box.end)));
  CHECK(out.elements() == box.elements(), "'{}': {} elements are read into {}", name,
        box.elements(), out.elements());
  if (used_ && t == find_sorted(used_->tensors, name)) {
    used_->adapters->read(name, begin, end, out);
    return;
  }
  const bool converts = out.dtype != t->dtype;
  if (converts && !(is_float(out.dtype) && is_float(t->dtype)))
    throw Error("{}: '{}' is {}, expected {}", folder_.string(), name, name_of(t->dtype),
                name_of(out.dtype));
  // A box is gathered in the stored type and converted at the end, in one pass.
  std::vector<std::byte> as_stored;
  if (converts) as_stored.resize(box.elements() * size_of(t->dtype));
  std::byte* to = converts ? as_stored.data() : static_cast<std::byte*>(out.data);
  if (dequantized_ && t == dequantized_->find(name))
    dequantized_->read(*this, *t, box, reinterpret_cast<float*>(to));
  // The boxes of a checkpoint and of this rank may differ in any way: each piece contributes its
  // intersection, and the pieces cover the tensor, so the box is filled completely.
  for (size_t i = 0; i < t->pieces.size(); ++i) {
    const Box piece{t->pieces[i].begin, t->pieces[i].end};
    const Box common = intersection(piece, box);
    if (common.elements() == 0) continue;
    const auto mapped = checked(*t, i);
    if (hf_)
      copy_box(common, piece, hf_->pieces[t - tensors_.data()][i], box, to, size_of(t->dtype));
    else
      tessera::copy_box(common, piece, mapped.data(), box, to, size_of(t->dtype));
    if (common == piece) release_pages(mapped);  // the piece was read completely
  }
  require_mapped_reads();
  if (converts) convert(to, t->dtype, static_cast<std::byte*>(out.data), out.dtype, box.elements());
}

std::span<const std::byte> CheckpointReader::whole(const StoredTensor& tensor) {
  if (tensor.pieces.size() != 1) return {};
  if (hf_) {
    const HfPiece& piece = hf_->pieces[&tensor - tensors_.data()][0];
    if (piece.moves() || piece.is_encoded()) return {};
  }
  return checked(tensor, 0);
}

int64_t CheckpointReader::verify() {
  int64_t bytes = 0;
  for (size_t t = 0; t < tensors_.size(); ++t)
    for (size_t p = 0; p < tensors_[t].pieces.size(); ++p) {
      if (seen_[t][p]) continue;
      const auto piece = checked(tensors_[t], p);
      bytes += std::ssize(piece);
      release_pages(piece);
    }
  return bytes;
}

}  // namespace tessera::checkpoint
