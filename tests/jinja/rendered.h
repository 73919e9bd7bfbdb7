// Renders a template with variables in JSON.
#pragma once

#include <string>

#include "base/error.h"
#include "jinja/template.h"

namespace tessera::jinja {

inline std::string rendered(const std::string& text, const std::string& variables = "{}") {
  return Template(text, "t.jinja").render(parse_json(variables, "variables")).text;
}

// Returns the message of the error; "no error" if there is none.
inline std::string error_of(const std::string& text, const std::string& variables = "{}") {
  try {
    rendered(text, variables);
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

}  // namespace tessera::jinja
