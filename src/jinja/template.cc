// Parses a template once, and evaluates it with one interpreter per rendering. The tree is constant
// after parsing, so several threads may render one template at the same time. A Fault has no
// location; it is caught here, where the interpreter still has the location of the statement or
// expression that it evaluated last.
#include "jinja/template.h"

#include "jinja/interpreter.h"
#include "jinja/parser.h"

namespace tessera::jinja {

Template::Template(std::string_view text, std::string source)
    : source_(std::move(source)),
      parsed_(std::make_unique<const ParsedTemplate>(parse(text, source_))) {}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

bool Template::has_generation() const { return parsed_->has_generation; }

RenderedText Template::render(const Tree& variables, const std::optional<std::tm>& now) const {
  Interpreter interpreter(variables, now);
  try {
    return interpreter.run(parsed_->body);
  } catch (const Fault& fault) {
    throw Error("{}:{}:{}: {}", source_, interpreter.at().line, interpreter.at().column,
                fault.message);
  }
}

}  // namespace tessera::jinja
