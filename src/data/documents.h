// Reads documents in sequence from text files, JSON lines, compressed files, folders and standard
// input.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "data/json_line.h"
#include "data/source_list.h"
#include "data/text_buffer.h"

namespace tessera::data {

class ParquetFile;

enum class Split : uint8_t { kNone, kLines, kParagraphs };
enum class TextFormat : uint8_t { kAuto, kText, kJsonLines, kParquet };
constexpr const char* enum_names(Split) { return "none|lines|paragraphs"; }
constexpr const char* enum_names(TextFormat) { return "auto|text|jsonl|parquet"; }

struct DocumentOptions {
  // How a plain text file is divided into documents. none: the file is one document; lines: one
  // document per line that is not empty, without its line end; paragraphs: one per run of lines
  // between empty lines, without the line end of the last one. A line of white space is empty.
  Split split = Split::kNone;
  // auto: JSON lines if the name ends in .jsonl, .ndjson or .json (also followed by .gz or .zst),
  // Parquet if it ends in .parquet, otherwise text; standard input is text.
  TextFormat format = TextFormat::kAuto;
  std::string key = "text";  // key of the text in the object of a JSON line, or column of a table
  // Rows of Parquet files are returned as JSON objects, in any format.
  bool whole_rows = false;
  // If above 0, a text file that is one document is returned in pieces of this many bytes, so that
  // it is never in memory as a whole. The positions of the cuts have no meaning.
  int64_t piece_bytes = 0;
  // The maximum number of lines to skip that are not JSON or have no text under the key.
  int64_t skip_bad = 0;
  bool any_bytes = false;  // also read files that are not text (refuse_what_is_not_text)
};

struct Document {
  std::string text;
  int64_t source = 0;  // index into DocumentStream::sources()
  int64_t offset = 0;  // offset of its first byte (JSON lines: of its line) when decompressed; for
                       // Parquet the number of its row, from 0
  int64_t line = 0;    // line in which it starts, or its row, from 1
  bool ends = true;    // false: this is a piece, and more of the document follows
};

// Reads documents. Memory holds one document (or piece) and one buffer. With a split, JSON lines or
// pieces, it therefore does not grow with the size of a file, even of a decompressed one.
class DocumentStream {
 public:
  DocumentStream(SourceList sources, DocumentOptions options);
  ~DocumentStream();
  DocumentStream(const DocumentStream&) = delete;
  DocumentStream& operator=(const DocumentStream&) = delete;
  // Sets a function that is called while an input has no bytes yet (ByteStream). It may throw.
  void on_wait(std::function<void()> call) { on_wait_ = std::move(call); }

  // Reads the next document; returns false at the end. Throws Error with file, line and column.
  // `out` keeps its memory between calls.
  bool next(Document& out);

  const std::vector<std::string>& sources() const { return sources_.files; }
  int64_t bytes_read() const;   // bytes read so far, of the files as stored
  int64_t bytes_total() const;  // −1: unknown, for example for standard input

  int64_t bad_lines() const { return bad_lines_; }             // lines skipped so far
  const std::string& first_bad() const { return first_bad_; }  // error of the first of them

 private:
  bool open_next();
  bool next_split_line(Document& out);
  bool next_paragraph(Document& out);
  bool next_json(Document& out);
  bool next_row(Document& out);
  void leave_out(const Error& error);

  SourceList sources_;
  DocumentOptions options_;
  std::function<void()> on_wait_;
  TextBuffer text_;                     // reads the open file
  bool json_lines_ = false;             // true if the open file is JSON Lines
  std::unique_ptr<ParquetFile> table_;  // the open file, if it is Parquet
  int64_t source_ = -1;                 // index of the open file in sources_
  int64_t done_bytes_ = 0, total_bytes_ = 0;
  JsonLineParser json_;
  std::string json_text_;
  int64_t bad_lines_ = 0;
  std::string first_bad_;
};

// ---- Detects files that are not text, so that a table or a program is not tokenized by mistake.

// Number of bytes of a file that are checked.
constexpr size_t kTextProbe = size_t{1} << 16;

// Throws Error if a file is not text. `start` is the first bytes of the file `source`,
// decompressed, at most kTextProbe of them. Rejects files that are recognized by their first bytes
// (Parquet, zip, ELF, PDF, NumPy, …), with advice on how to convert them; UTF-16; and files in
// which more than a tenth of the bytes, and at least 32, are zeros, other control characters or not
// UTF-8.
void refuse_what_is_not_text(std::string_view start, const std::string& source);

// Returns true if a file of this name is a table as text: .csv or .tsv, also with .gz or .zst.
bool named_table(std::string_view name);

}  // namespace tessera::data
