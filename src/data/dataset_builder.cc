// Builds a dataset: a pipeline of one reader, several encoding threads and one writer.
//
// The caller's thread reads documents into batches of about 1 MiB, hands them to the encoders, and
// writes encoded batches in the order in which they were read, so the files do not depend on the
// number of threads. At most 64 MiB of text are in the pipeline; when it is full, the caller writes
// the oldest batch before it reads on, which bounds memory and keeps encoders busy.
#include "data/dataset_builder.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "base/config.h"
#include "base/error.h"
#include "data/documents.h"
#include "data/indexed_dataset.h"
#include "data/indexed_dataset_writer.h"
#include "data/vocabulary.h"

namespace tessera::data {
namespace {

constexpr int64_t kBatchBytes = int64_t{1} << 20;      // text per batch; amortizes the hand-over
constexpr int64_t kUnderWayBytes = int64_t{64} << 20;  // text in all batches

// A unit of work of an encoding thread.
struct Batch {
  struct Entry {
    Document document;   // a document or a piece of one; its text is freed once it is encoded
    int64_t before = 0;  // bytes of the document before this piece
    int64_t bytes = 0;
    size_t end = 0;  // end of its ids in Batch::ids
    EncodeReport report;
  };
  std::vector<Entry> entries;
  std::vector<int32_t> ids;
  int64_t bytes = 0;
  std::exception_ptr error;
  bool done = false;
};

// The encoding threads. A deque contains the batches in reading order: those before `claimed_` are
// being encoded or are done, and pop() waits for the first one and removes it. Batches are
// allocated one by one, so their addresses stay valid while the deque changes.
class Encoders {
 public:
  Encoders(const Tokenizer& tokenizer, std::optional<int32_t> end_of_text, int threads)
      : tokenizer_(tokenizer), end_of_text_(end_of_text), caches_(threads) {
    try {
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this, i] { work(caches_[i]); });
    } catch (const std::system_error& e) {
      // If some threads could be started, these do all the work.
      if (threads_.empty()) throw Error("no encoding thread can be started: {}", e.what());
    }
  }
  ~Encoders() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread& t : threads_) t.join();
  }
  Encoders(const Encoders&) = delete;
  Encoders& operator=(const Encoders&) = delete;

  void push(std::unique_ptr<Batch> batch) {
    under_way_ += batch->bytes;
    {
      const std::lock_guard lock(mutex_);
      batches_.push_back(std::move(batch));
    }
    wake_.notify_one();
  }
  bool empty() const { return under_way_ == 0 && batches_.empty(); }
  bool full() const { return under_way_ >= kUnderWayBytes; }

  // Waits for the oldest batch and returns it. Throws what its encoding threw.
  std::unique_ptr<Batch> pop() {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return batches_.front()->done; });
    std::unique_ptr<Batch> batch = std::move(batches_.front());
    batches_.pop_front();
    // A claimed batch was removed from the front, so the index of the next unclaimed one decreases.
    --claimed_;
    under_way_ -= batch->bytes;
    if (batch->error) std::rethrow_exception(batch->error);
    return batch;
  }

 private:
  void work(EncodeCache& cache) {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return stop_ || claimed_ < batches_.size(); });
      if (stop_) return;
      Batch& batch = *batches_[claimed_++];
      lock.unlock();
      try {
        encode(batch, cache);
      } catch (...) {
        // pop() throws it in reading order, so the reported document is the first bad one.
        batch.error = std::current_exception();
      }
      lock.lock();
      batch.done = true;
      done_.notify_one();
    }
  }

  void encode(Batch& batch, EncodeCache& cache) const {
    // About three bytes of text per token in English; the vector grows if there are more.
    batch.ids.reserve(batch.bytes / 3 + batch.entries.size());
    for (Batch::Entry& e : batch.entries) {
      tokenizer_.encode(e.document.text, batch.ids, cache, &e.report);
      if (end_of_text_ && e.document.ends) batch.ids.push_back(*end_of_text_);
      e.end = batch.ids.size();
      // Frees the text: from here on, only the ids use memory.
      e.document.text = std::string();
    }
  }

  const Tokenizer& tokenizer_;
  std::optional<int32_t> end_of_text_;
  std::mutex mutex_;
  std::condition_variable wake_, done_;
  std::deque<std::unique_ptr<Batch>> batches_;
  size_t claimed_ = 0;  // number of claimed batches at the front of batches_
  bool stop_ = false;
  int64_t under_way_ = 0;            // bytes in batches_; used only by the caller's thread
  std::vector<EncodeCache> caches_;  // one per thread
  std::vector<std::thread> threads_;
};

// Writes encoded batches and updates the totals of PREFIX.json.
class Accounts {
 public:
  Accounts(IndexedDatasetWriter& writer, DatasetInfo& about) : writer_(writer), about_(about) {}

  void write(const Batch& batch) {
    size_t begin = 0;
    for (const Batch::Entry& e : batch.entries) {
      const auto ids = std::span(batch.ids).subspan(begin, e.end - begin);
      // A long document has several entries; only the last one ends it.
      writer_.add_tokens(ids);
      if (e.document.ends) writer_.end_document();
      begin = e.end;
      SourceInfo& source = about_.sources[e.document.source];
      source.documents += e.document.ends;
      source.tokens += std::ssize(ids);
      source.text_bytes += e.bytes;
      about_.text_bytes += e.bytes;
      if (e.report.invalid_bytes > 0) invalid(e, source.name);
    }
    about_.documents = writer_.documents();
    about_.tokens = writer_.tokens();
  }

 private:
  void invalid(const Batch::Entry& e, const std::string& name) {
    if (about_.invalid_bytes == 0) {
      about_.first_invalid = fmt::format("{}:{}: byte {} of the document that starts in this line",
                                         name, e.document.line, e.before + e.report.first_invalid);
    }
    about_.invalid_bytes += e.report.invalid_bytes;
  }

  IndexedDatasetWriter& writer_;
  DatasetInfo& about_;
};

// Reads documents in batches. A long document is split at positions that do not change its ids
// (Tokenizer::last_cut). The search window starts at 1 MiB and doubles while it contains no such
// position, up to kLongestLine.
class BatchReader {
 public:
  BatchReader(DocumentStream& stream, const Tokenizer& tokenizer)
      : stream_(stream), tokenizer_(tokenizer) {}

  std::unique_ptr<Batch> next() {
    auto batch = std::make_unique<Batch>();
    while (batch->bytes < kBatchBytes) {
      Batch::Entry entry;
      if (!next_entry(entry)) break;
      entry.bytes = std::ssize(entry.document.text);
      constexpr int64_t kBookkeeping = sizeof(Batch::Entry);  // so that empty documents count too
      batch->bytes += entry.bytes + kBookkeeping;
      batch->entries.push_back(std::move(entry));
    }
    return batch;
  }

 private:
  bool next_entry(Batch::Entry& entry) {
    if (!long_) {
      Document& d = entry.document;
      if (!stream_.next(d)) return false;
      if (d.ends && d.text.size() <= kPiece) return true;
      long_ = std::move(d);
      from_ = 0;
    }
    size_t cut = 0;
    for (size_t look = kPiece; cut == 0; look *= 2) {
      while (!long_->ends && left().size() <= look) read_more();
      if (left().size() <= look) {
        cut = left().size();
        break;
      }
      cut = tokenizer_.last_cut(left().substr(0, look));
      if (cut == 0 && std::cmp_greater_equal(look, TextBuffer::kLongestLine)) refuse();
    }
    const bool ends = cut == left().size();  // true: this is the last piece
    entry.document = {std::string(left().substr(0, cut)), long_->source, long_->offset, long_->line,
                      ends};
    entry.before = before_;
    from_ += cut;
    before_ = ends ? 0 : before_ + cut;
    if (ends) long_.reset();
    return true;
  }

  std::string_view left() const { return std::string_view(long_->text).substr(from_); }

  void read_more() {
    Document more;
    long_->text.erase(0, std::exchange(from_, 0));
    CHECK(stream_.next(more), "the input ended within a document");
    long_->text += more.text;
    long_->ends = more.ends;
  }

  [[noreturn]] void refuse() const {
    throw Error(
        "{}:{}: {} bytes from byte {} of the document have no position where the text can be "
        "split, such as a space between two letters. Check that this file is text. Use --split "
        "lines or paragraphs, or omit the file",
        stream_.sources()[long_->source], long_->line, TextBuffer::kLongestLine, before_);
  }

  static constexpr size_t kPiece = kBatchBytes;
  DocumentStream& stream_;
  const Tokenizer& tokenizer_;
  std::optional<Document> long_;  // document being split; `ends`: all of its text has been read
  size_t from_ = 0;               // start of the rest of its text
  int64_t before_ = 0;            // bytes of the document before from_
};

void make_folder(const Path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error("{}: the folder cannot be created: {}", folder.string(), error.message());
}

DatasetInfo describe(const Tokenizer& tokenizer, const BuildOptions& options,
                     const std::vector<std::string>& files) {
  DatasetInfo about;
  about.tokenizer = options.tokenizer_name;
  about.tokenizer_fingerprint = tokenizer.fingerprint();
  about.vocabulary = tokenizer.vocabulary_size();
  about.token_texts = hash_token_texts(tokenizer, about.vocabulary);
  if (options.end_of_text) {
    about.end_of_text = tokenizer.end_of_text();
    if (!about.end_of_text) {
      throw Error(
          "{}: has no end-of-text token to add after each document. Add one to the "
          "tokenizer, or build without it (--no-end-of-text)",
          options.tokenizer_name);
    }
  }
  about.split = name_of_entry(options.documents.split);
  about.format = name_of_entry(options.documents.format);
  about.key = options.documents.key;
  for (const std::string& file : files) about.sources.push_back({file, 0, 0, 0});
  return about;
}

}  // namespace

BuildResult build_dataset(const Tokenizer& tokenizer, const BuildOptions& options,
                          const std::function<void(const BuildProgress&)>& progress) {
  SourceList sources = list_sources(options.inputs);
  BuildResult result;
  result.skipped_files = sources.skipped;
  result.left_out = sources.left_out;
  for (const std::string& file : sources.files)
    if (named_table(file)) result.tables.push_back(file);
  // The outputs must not overwrite an input or the tokenizer.
  SourceList read = sources;
  read.files.push_back(options.tokenizer_name);
  for (const char* suffix : {".bin", ".idx", ".json"}) {
    Path file = options.out;
    check_output(file += suffix, read);
  }
  DatasetInfo& about = result.about = describe(tokenizer, options, sources.files);
  DocumentOptions documents = options.documents;
  documents.piece_bytes = kBatchBytes;
  DocumentStream stream(std::move(sources), documents);
  const auto report = [&] {
    if (progress)
      progress({about.documents, about.tokens, about.text_bytes, stream.bytes_read(),
                stream.bytes_total()});
  };
  stream.on_wait(report);
  BatchReader reader(stream, tokenizer);
  std::unique_ptr<Batch> batch = reader.next();  // an error in the first lines creates no files
  if (batch->entries.empty()) {
    throw Error("{}{}: no document found, expected text, or JSON lines with the key '{}'",
                options.inputs.front(), options.inputs.size() > 1 ? " and the other inputs" : "",
                options.documents.key);
  }
  if (options.out.has_parent_path()) make_folder(options.out.parent_path());
  IndexedDatasetWriter writer(options.out, dtype_for_vocabulary(about.vocabulary));
  // PREFIX.idx is renamed last: without it there is no dataset. The writer owns the lock of the
  // prefix, so no other build can create one now.
  refuse_existing(options.out.string() + ".idx", options.replace);
  Accounts accounts(writer, about);
  Encoders encoders(tokenizer, about.end_of_text, options.threads);
  const auto write_oldest = [&] {
    accounts.write(*encoders.pop());
    report();
  };
  while (!batch->entries.empty()) {
    encoders.push(std::move(batch));
    while (encoders.full()) write_oldest();
    batch = reader.next();
  }
  while (!encoders.empty()) write_oldest();
  result.bad_lines = stream.bad_lines();
  result.first_bad = stream.first_bad();
  writer.commit(to_json(about));
  return result;
}

}  // namespace tessera::data
