// Splits files into documents: lines, paragraphs, JSON values, or whole files in pieces.
//
// A stream over all files: only the document that is being read is in memory, and whole files are
// read in pieces of bounded size, so a file may be larger than memory. Compressed files are
// decompressed while they are read (byte_stream.h). The offset and line of a document are those in
// the decompressed file, so a message can point to it.
#include "data/documents.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/utf8.h"
#include "data/parquet_file.h"

namespace tessera::data {
namespace {

namespace fs = std::filesystem;

// Returns true if a line is empty or has only white space. WikiText, for example, has lines with
// one blank between its paragraphs.
bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\v\f") == line.npos; }

}  // namespace

DocumentStream::DocumentStream(SourceList sources, DocumentOptions options)
    : sources_(std::move(sources)), options_(std::move(options)), json_(options_.key) {
  for (const std::string& file : sources_.files) {
    std::error_code error;
    // The total is only for progress. It is unknown if one size is unknown.
    const auto size = file == "-" ? 0 : fs::file_size(file, error);
    if (file == "-" || error) {
      total_bytes_ = -1;
      break;
    }
    total_bytes_ += size;
  }
}

DocumentStream::~DocumentStream() = default;

int64_t DocumentStream::bytes_read() const {
  return done_bytes_ + (table_ ? table_->bytes_read() : text_.stored_bytes());
}
int64_t DocumentStream::bytes_total() const { return total_bytes_; }

bool DocumentStream::open_next() {
  done_bytes_ = table_ ? done_bytes_ + table_->file_bytes() : bytes_read();
  text_.close();
  table_.reset();
  if (source_ + 1 >= std::ssize(sources_.files)) return false;
  ++source_;
  const std::string& name = sources_.files[source_];
  if (options_.format == TextFormat::kParquet ||
      (named_parquet(name) && (options_.whole_rows || options_.format == TextFormat::kAuto))) {
    table_ = std::make_unique<ParquetFile>(
        name, options_.whole_rows ? std::vector<std::string>() : std::vector{options_.key});
    return true;
  }
  text_.open(name, on_wait_);
  json_lines_ = options_.format == TextFormat::kJsonLines ||
                (options_.format == TextFormat::kAuto && named_json_lines(name));
  // The first bytes decide whether the file is text, before any of it is encoded.
  if (!options_.any_bytes) refuse_what_is_not_text(text_.peek(kTextProbe), text_.name());
  return true;
}

bool DocumentStream::next_split_line(Document& out) {
  std::string_view line;
  do {
    out.offset = text_.offset();
    if (!text_.next_line(line)) return false;
  } while (is_blank(line));
  out.text.assign(line);
  out.line = text_.line();
  return true;
}

// A paragraph is a run of lines that are not empty. A line of white space is empty.
bool DocumentStream::next_paragraph(Document& out) {
  if (!next_split_line(out)) return false;
  for (std::string_view line; text_.next_line(line) && !is_blank(line);) {
    out.text.append("\n").append(line);
  }
  return true;
}

// Counts a bad line, or throws its error if no more bad lines may be skipped.
void DocumentStream::leave_out(const Error& error) {
  if (options_.skip_bad == 0) throw error;
  if (bad_lines_ == options_.skip_bad)
    throw Error("{} This is bad line {}; --skip-bad skips at most {}.", sentence(error.what()),
                bad_lines_ + 1, options_.skip_bad);
  if (bad_lines_++ == 0) first_bad_ = error.what();
}

bool DocumentStream::next_json(Document& out) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  for (std::string_view line;;) {
    out.offset = text_.offset();
    if (!text_.next_line(line)) return false;
    if (text_.line() == 1 && line.starts_with(kByteOrderMark))
      line.remove_prefix(kByteOrderMark.size());
    if (is_blank(line)) continue;
    out.line = text_.line();
    json_text_.assign(line);
    try {
      json_.parse(json_text_, fmt::format("{}:{}", text_.name(), out.line), out.text);
      return true;
    } catch (const Error& error) {
      leave_out(error);
    }
  }
}

bool DocumentStream::next_row(Document& out) {
  for (Tree row; table_->next(row);) {
    out.line = table_->row();
    out.offset = out.line - 1;
    out.ends = true;
    if (options_.whole_rows) {
      out.text = to_json(row);
      return true;
    }
    const Tree* value = row.find(options_.key);
    if (value->as_string() != nullptr) {
      out.text = *value->as_string();
      return true;
    }
    leave_out(Error("{}: row {}: '{}' is {}, expected a text", table_->name(), out.line,
                    options_.key, value->is_null() ? "null" : to_json(*value)));
  }
  return false;
}

bool DocumentStream::next(Document& out) {
  for (;;) {
    if (table_ && next_row(out)) {
      out.source = source_;
      return true;
    }
    if (text_.is_open()) {
      const bool whole = !json_lines_ && options_.split == Split::kNone;
      bool found = false;
      if (whole) {
        out.offset = text_.offset();
        out.line = 1;
        found = text_.next_piece(options_.piece_bytes, out.text, out.ends);
      } else {
        out.ends = true;
        found = json_lines_                       ? next_json(out)
                : options_.split == Split::kLines ? next_split_line(out)
                                                  : next_paragraph(out);
      }
      out.source = source_;
      if (found) return true;
    }
    if (!open_next()) return false;
  }
}

}  // namespace tessera::data
