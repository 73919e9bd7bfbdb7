// Any bytes are a template or an Error. A template gives the same text twice for a conversation, or
// an Error, and the spans of generated text are ascending and inside it.
#include "base/error.h"
#include "jinja/template.h"

namespace {

const tessera::Tree& variables() {
  static const tessera::Tree tree = tessera::parse_json(
      R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U é"},
          {"role": "assistant", "content": "A", "tool_calls": [{"function": {"name": "f",
           "arguments": {"a": [1, 2.5, null]}}}]}], "tools": null, "add_generation_prompt": true,
          "bos_token": "<s>", "eos_token": "</s>", "n": 3})",
      "variables");
  return tree;
}

std::string rendered(const tessera::jinja::Template& form) {
  try {
    const tessera::jinja::RenderedText r = form.render(variables());
    size_t at = 0;
    for (const auto& [from, to] : r.generated) {
      CHECK(at <= from && from <= to && to <= r.text.size(), "span {} to {}", from, to);
      at = to;
    }
    return r.text;
  } catch (const tessera::Error& e) {
    return e.what();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const tessera::jinja::Template form(text, "t");
    const std::string once = rendered(form), again = rendered(form);
    CHECK(once == again, "{} and then {}", once, again);
  } catch (const tessera::Error&) {
  }
  return 0;
}
