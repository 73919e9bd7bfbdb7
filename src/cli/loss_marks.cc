// Marks ranges of tokens. The text of a range is what it adds to the text before it: a character
// may consist of several tokens, and a decoder may remove a space in front of the first token only.
#include "cli/loss_marks.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "base/utf8.h"

namespace tessera::cli {
namespace {

struct LossMarks {
  std::string begin = "[", end = "]";
};

LossMarks loss_marks() {
  if (isatty(STDOUT_FILENO) == 0 || std::getenv("NO_COLOR") != nullptr) return {};
  return {"\x1b[32m", "\x1b[0m"};
}

}  // namespace

std::string marked_text(const data::Tokenizer& tokenizer, std::span<const int32_t> ids,
                        std::span<const char> learned) {
  const LossMarks marks = loss_marks();
  std::string text;
  size_t shown = 0;
  for (size_t from = 0, to = 0; from < ids.size(); from = to) {
    while (to < ids.size() && learned[to] == learned[from]) ++to;
    const std::string all = tokenizer.decode(ids.first(to));
    const std::string part = printable(all.substr(std::min(shown, all.size())));
    shown = all.size();
    text += learned[from] != 0 ? marks.begin + part + marks.end : part;
  }
  return text;
}

std::string marked_ids(std::span<const int32_t> ids, std::span<const char> learned) {
  const LossMarks marks = loss_marks();
  std::string line = "  ids:";
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool begins = learned[i] != 0 && (i == 0 || learned[i - 1] == 0);
    const bool ends = learned[i] != 0 && (i + 1 == ids.size() || learned[i + 1] == 0);
    line += fmt::format(" {}{}{}", begins ? marks.begin : "", ids[i], ends ? marks.end : "");
  }
  return line + "\n";
}

}  // namespace tessera::cli
