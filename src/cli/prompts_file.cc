#include "cli/prompts_file.h"

#include <algorithm>

#include "base/error.h"
#include "base/utf8.h"

namespace tessera::cli {
namespace {

Prompt prompt_of(const Tree& line, const std::string& source,
                 std::span<const std::string_view> results) {
  Prompt p;
  const Tree* text = line.find("prompt");
  const char* name = "prompt";
  if (text == nullptr) text = line.find(name = "text");
  if (text == nullptr || text->as_string() == nullptr)
    throw Error(
        "{}:{}: expected an object with the string \"prompt\" or \"text\", since the file begins "
        "with '{{'.",
        source, line.line);
  p.text = *text->as_string();
  p.place = fmt::format("{}:{}", source, line.line);
  p.rest = Tree::object();
  for (const auto& [key, value] : *line.as_members()) {
    if (key == name) continue;
    if (std::ranges::find(results, key) != results.end())
      throw Error(
          "{}: the prompt is in \"{}\", and the output has its own \"{}\". Give that member "
          "another name, such as \"input_{}\", under which it is repeated in the output.",
          p.place, name, key, key);
    p.rest.set(key, value);
  }
  return p;
}

}  // namespace

std::vector<Prompt> read_prompts(const Path& file, std::span<const std::string_view> results) {
  const std::string bytes = read_file(file);
  std::string_view text = without_byte_order_mark(bytes);
  std::vector<Prompt> out;
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first != text.npos && text[first] == '{') {
    for (const Tree& line : parse_json_lines(text, file.string()))
      out.push_back(prompt_of(line, file.string(), results));
  } else {
    for (int64_t number = 1; !text.empty(); ++number) {
      const size_t end = std::min(text.find('\n'), text.size());
      std::string_view line = text.substr(0, end);
      if (line.ends_with('\r')) line.remove_suffix(1);
      if (!line.empty())
        out.push_back({std::string(line), {}, fmt::format("{}:{}", file.string(), number)});
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }
  if (out.empty()) throw Error("{} contains no prompt. Write one per line.", file.string());
  return out;
}

}  // namespace tessera::cli
