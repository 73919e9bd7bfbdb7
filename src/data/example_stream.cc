// Reads lines (of Parquet, rows as JSON), and parses each as an example; or the lines of a whole
// file as one list.
#include "data/example_stream.h"

#include <utility>

#include "base/error.h"

namespace tessera::data {

ExampleStream::ExampleStream(const std::vector<std::string>& files)
    : stream_(list_sources(files),
              {.split = Split::kLines, .format = TextFormat::kText, .whole_rows = true}) {}

bool ExampleStream::next_line(Document& out) {
  if (!ahead_) return stream_.next(out);
  out = *std::exchange(ahead_, std::nullopt);
  return true;
}

void ExampleStream::read_list(Document line) {
  std::string text = std::move(line.text);
  int64_t lines = 0;  // line ends in `text`
  for (Document more; stream_.next(more);) {
    if (more.source != line.source) {
      ahead_ = std::move(more);
      break;
    }
    // The stream skips empty lines, which count in messages.
    text.append(static_cast<size_t>(more.line - line.line - lines), '\n');
    lines = more.line - line.line;
    text += more.text;
  }
  Tree tree = parse_json(text, sources()[line.source], static_cast<int>(line.line));
  list_ = std::move(std::get<Tree::List>(tree.value));
  list_at_ = 0;
}

bool ExampleStream::next(JsonExample& out) {
  for (Document line;;) {
    if (list_at_ < list_.size()) {
      out.source = source_;
      out.line = list_[list_at_].line;
      out.tree = std::move(list_[list_at_++]);
      return true;
    }
    if (!next_line(line)) return false;
    const size_t first = line.text.find_first_not_of(" \t\r");
    if (first == line.text.npos) continue;
    const bool begins = std::exchange(source_, line.source) != line.source;
    if (begins && line.text[first] == '[') {
      read_list(std::move(line));
      continue;
    }
    out.source = line.source;
    out.line = line.line;
    out.tree = parse_json(line.text, sources()[line.source], static_cast<int>(line.line));
    return true;
  }
}

}  // namespace tessera::data
