// Chat templates: the subset of Jinja that the templates of published models use, with the settings
// and functions of transformers' apply_chat_template.
//
// Supported: if, for (with `if` and `else`), set (also as a block and for attributes of a
// namespace), macro, break, continue, {% generation %}; all expressions; the filters, tests and
// methods that filters.cc, filters_of_lists.cc, tests.cc and methods.cc list; the functions
// namespace, range, dict, raise_exception and strftime_now. White space is trimmed as with
// trim_blocks and lstrip_blocks. Lists and dictionaries cannot be changed. Anything else is
// rejected by name when the template is read.
#pragma once

#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/tree.h"

namespace tessera::jinja {

struct ParsedTemplate;

struct RenderedText {
  std::string text;
  // The bytes [first, second) of the text that {% generation %} blocks wrote, in ascending order.
  std::vector<std::pair<size_t, size_t>> generated;
};

class Template {
 public:
  // Parses a template; `source` names it in errors. Throws Error with line and column.
  Template(std::string_view text, std::string source);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  const std::string& source() const { return source_; }
  bool has_generation() const;  // there is a {% generation %} block

  // Renders the template with the members of an object as variables. `now` is the time that
  // strftime_now() returns; without it, that function is an error. Throws Error with line and
  // column if the evaluation fails, if the template calls raise_exception(), or if it exceeds a
  // limit: 1,000,000 steps, 64 MiB of text, 100 nested calls. May be called by several threads.
  RenderedText render(const Tree& variables, const std::optional<std::tm>& now = {}) const;

 private:
  std::string source_;
  std::unique_ptr<const ParsedTemplate> parsed_;
};

}  // namespace tessera::jinja
