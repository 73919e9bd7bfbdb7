#include "cli/prompts_file.h"

#include <string_view>

#include "base/error.h"
#include "base/utf8.h"

namespace tessera::cli {
namespace {

Prompt prompt_of(const Tree& line, const std::string& source) {
  Prompt p;
  const Tree* text = line.find("prompt");
  const char* name = "prompt";
  if (text == nullptr) text = line.find(name = "text");
  if (text == nullptr || text->as_string() == nullptr)
    throw Error("{}:{}: expected an object with the string \"prompt\" or \"text\".", source,
                line.line);
  p.text = *text->as_string();
  p.rest = Tree::object();
  for (const auto& [key, value] : *line.as_members())
    if (key != name) p.rest.set(key, value);
  return p;
}

}  // namespace

std::vector<Prompt> read_prompts(const Path& file) {
  const std::string bytes = read_file(file);
  std::string_view text = without_byte_order_mark(bytes);
  std::vector<Prompt> out;
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != text.npos && text[first] == '{') {
    for (const Tree& line : parse_json_lines(text, file.string()))
      out.push_back(prompt_of(line, file.string()));
  } else {
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty()) out.push_back({std::string(line), {}});
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  if (out.empty()) throw Error("{} contains no prompt. Write one per line.", file.string());
  return out;
}

}  // namespace tessera::cli
