// Writes a dataset in Megatron-LM's indexed format (indexed_dataset.cc has the layout). The .idx
// begins with all lengths, which are known only at the end. So they are spooled to an unnamed file,
// which is then read twice: once for the lengths, once for the offsets.
#include "data/indexed_dataset_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/temporary.h"

namespace tessera::data {
namespace {

Path with_suffix(Path prefix, const char* suffix) {
  prefix += suffix;
  return prefix;
}

}  // namespace

// The documents' lengths in order: a buffer, and a file that is unlinked right after its creation,
// so that it disappears however the program ends.
class IndexedDatasetWriter::Lengths {
 public:
  explicit Lengths(const Path& path) : path_(temporary_name(path)) {
    fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd_ < 0) throw Error("{}: cannot be created: {}", path_.string(), std::strerror(errno));
    ::unlink(path_.c_str());
  }
  ~Lengths() { ::close(fd_); }
  Lengths(const Lengths&) = delete;
  Lengths& operator=(const Lengths&) = delete;

  void add(int32_t length) {
    buffer_.push_back(length);
    if (buffer_.size() == kBuffer) flush();
  }

  template <class F>
  void for_each_block(F visit) {
    std::vector<int32_t> block(kBuffer);
    for (off_t at = 0; at < written_;) {
      const ssize_t bytes = std::min<size_t>(written_ - at, kBuffer * sizeof(int32_t));
      const ssize_t n = ::pread(fd_, block.data(), bytes, at);
      if (n < 0 && errno == EINTR) continue;
      if (n != bytes) {
        throw Error("{}: cannot be read back: {}", path_.string(), std::strerror(errno));
      }
      visit(std::span<const int32_t>(block).first(bytes / sizeof(int32_t)));
      at += n;
    }
    visit(std::span<const int32_t>(buffer_));
  }

 private:
  static constexpr size_t kBuffer = size_t{1} << 16;

  void flush() {
    const auto* bytes = reinterpret_cast<const char*>(buffer_.data());
    for (size_t left = buffer_.size() * sizeof(int32_t); left > 0;) {
      const ssize_t n = ::pwrite(fd_, bytes, left, written_);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) throw Error("{}: cannot be written: {}", path_.string(), std::strerror(errno));
      // A partial write continues with the rest.
      bytes += n;
      left -= n;
      written_ += n;
    }
    buffer_.clear();
  }

  Path path_;
  int fd_ = -1;
  off_t written_ = 0;
  std::vector<int32_t> buffer_;
};

IndexedDatasetWriter::IndexedDatasetWriter(const Path& prefix, DType dtype)
    : prefix_(prefix),
      lock_(with_suffix(prefix, ".lock"),
            {.subject = fmt::format("{}.bin, .idx and .json", prefix.string()),
             .advice = "Wait until that process has ended, or choose another PREFIX."}),
      dtype_(dtype),
      data_(with_suffix(prefix, ".bin")),
      index_(with_suffix(prefix, ".idx")),
      about_(with_suffix(prefix, ".json")),
      lengths_(std::make_unique<Lengths>(with_suffix(prefix, ".lengths"))) {
  CHECK(dtype == DType::kU16 || dtype == DType::kI32, "token ids are not stored as {}",
        name_of(dtype));
}

IndexedDatasetWriter::~IndexedDatasetWriter() = default;

void IndexedDatasetWriter::add_tokens(std::span<const int32_t> ids) {
  length_ += std::ssize(ids);
  if (length_ > std::numeric_limits<int32_t>::max()) {
    throw Error(
        "document {} has more than 2,147,483,647 tokens, the limit of the .idx format. "
        "Split the text with --split lines or --split paragraphs",
        documents_);
  }
  // Ids are converted in blocks on the stack, without a heap allocation per document.
  if (dtype_ == DType::kI32) {
    data_.write(ids.data(), ids.size_bytes());
  } else {
    constexpr size_t kBlock = 4096;
    uint16_t block[kBlock];
    for (size_t from = 0; from < ids.size(); from += kBlock) {
      const size_t n = std::min(kBlock, ids.size() - from);
      for (size_t i = 0; i < n; ++i) {
        CHECK(std::in_range<uint16_t>(ids[from + i]), "id {} in a u16 dataset", ids[from + i]);
        block[i] = static_cast<uint16_t>(ids[from + i]);
      }
      data_.write(block, n * sizeof(uint16_t));
    }
  }
  tokens_ += std::ssize(ids);
}

void IndexedDatasetWriter::end_document() {
  lengths_->add(static_cast<int32_t>(length_));
  length_ = 0;
  ++documents_;
}

void IndexedDatasetWriter::write_index() {
  const auto put = [&](auto value) { index_.write(&value, sizeof value); };
  constexpr uint8_t kCodeI32 = 4, kCodeU16 = 8;
  // Magic bytes, version 1 and the code of the element type. Sequences have 32-bit lengths in
  // tokens and 64-bit offsets in bytes.
  index_.write("MMIDIDX\0\0", 9);
  put(uint64_t{1});
  put(dtype_ == DType::kU16 ? kCodeU16 : kCodeI32);
  put(documents_);      // sequences
  put(documents_ + 1);  // document entries
  lengths_->for_each_block([&](auto block) { index_.write(block.data(), block.size_bytes()); });
  int64_t offset = 0;
  lengths_->for_each_block([&](auto block) {
    for (const int32_t n : block) {
      put(offset);
      offset += n * size_of(dtype_);
    }
  });
  // One sequence per document: document d starts at sequence d.
  for (int64_t d = 0; d <= documents_; ++d) put(d);
}

void IndexedDatasetWriter::commit(std::string_view about) {
  CHECK(length_ == 0, "document {} has not ended", documents_);
  write_index();
  about_.write(about.data(), about.size());
  // All three files are flushed under temporary names first, so a full disk changes nothing.
  for (FileWriter* file : {&data_, &about_, &index_}) file->prepare();
  // An old index is removed before the new files get their names. A crash in between leaves no
  // dataset, never a mix of two builds, because a .bin without an .idx is not a dataset.
  const Path index = with_suffix(prefix_, ".idx");
  if (::unlink(index.c_str()) != 0 && errno != ENOENT)
    throw FileError(index, "cannot be replaced", errno);
  lock_.require_owned();
  for (FileWriter* file : {&data_, &about_, &index_}) file->commit();
}

}  // namespace tessera::data
