// Documents, one after the other, out of text files, JSON lines, compressed files, folders and
// standard input.
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

enum class Split : uint8_t { kNone, kLines, kParagraphs };
enum class TextFormat : uint8_t { kAuto, kText, kJsonLines };
constexpr const char* enum_names(Split) { return "none|lines|paragraphs"; }
constexpr const char* enum_names(TextFormat) { return "auto|text|jsonl"; }

struct DocumentOptions {
  // What a plain text file is: one document; one a line that is not empty, without its end; one a
  // paragraph, which is what stands between empty lines, without the end of its last line.
  Split split = Split::kNone;
  // auto: JSON lines if the name ends in .jsonl, .ndjson or .json (also with .gz or .zst behind),
  // else text; standard input is text.
  TextFormat format = TextFormat::kAuto;
  std::string key = "text";  // of a JSON line's object
  // Above 0: a text file that is one document comes in pieces of that many bytes, so that it need
  // not be held as a whole. Where they are cut means nothing.
  int64_t piece_bytes = 0;
  // The largest number of lines to leave out that are not JSON or hold no text under the key.
  int64_t skip_bad = 0;
  bool any_bytes = false;  // read files that are not text too (refuse_what_is_not_text)
};

struct Document {
  std::string text;
  int64_t source = 0;  // which of DocumentStream::sources()
  int64_t offset = 0;  // of its first byte in the decompressed file (JSON lines: of its line)
  int64_t line = 0;    // the line it starts at, from 1
  bool ends = true;    // false: a piece of a document, and more of it comes
};

// Memory: one document (or piece) and one buffer, so with a split, with JSON lines or with pieces
// it does not grow with the file, however far a compressed one unpacks.
class DocumentStream {
 public:
  DocumentStream(SourceList sources, DocumentOptions options);
  // Sets a function that is called while an input has no bytes yet (ByteStream). It may throw.
  void on_wait(std::function<void()> call) { on_wait_ = std::move(call); }

  // The next document, or false at the end. Throws Error with file, line and column. `out` keeps
  // its memory from call to call.
  bool next(Document& out);

  const std::vector<std::string>& sources() const { return sources_.files; }
  int64_t bytes_read() const;   // of the files as they are stored, so far
  int64_t bytes_total() const;  // −1 where unknown, as for standard input

  int64_t bad_lines() const { return bad_lines_; }             // left out so far
  const std::string& first_bad() const { return first_bad_; }  // where and why the first one was

 private:
  bool open_next();
  bool next_split_line(Document& out);
  bool next_paragraph(Document& out);
  bool next_json(Document& out);
  void leave_out(const Error& error);

  SourceList sources_;
  DocumentOptions options_;
  std::function<void()> on_wait_;
  TextBuffer text_;          // reads the open file
  bool json_lines_ = false;  // true if the open file is JSON Lines
  int64_t source_ = -1;      // index of the open file in sources_
  int64_t done_bytes_ = 0, total_bytes_ = 0;
  JsonLineParser json_;
  std::string json_text_;
  int64_t bad_lines_ = 0;
  std::string first_bad_;
};

// ---- Detects files that are not text, so that a table or a program is not tokenized by mistake.

// Number of bytes of a file that are checked.
constexpr size_t kTextProbe = size_t{1} << 16;

// `start`: the first bytes of the file `source`, decompressed, at most kTextProbe of them. Throws
// Error for a file that is known by its first bytes (Parquet, zip, ELF, PDF, NumPy, …), with the
// way to convert it; for UTF-16; and where more than a tenth of the bytes (and 32 or more) are
// zeros, other control characters or not UTF-8.
void refuse_what_is_not_text(std::string_view start, const std::string& source);

// Whether a file of that name holds a table as text: .csv or .tsv, also with .gz or .zst.
bool named_table(std::string_view name);

}  // namespace tessera::data
