// What a tokenizer.json of Hugging Face puts around a text: the template of its post-processor.
#pragma once

#include <string>

#include "base/tree.h"

namespace tessera {

struct TextTemplate {
  std::string begin, end;  // the tokens before and behind a text, by name; empty: none
};

// Of a whole tokenizer.json. A template says { "single": [{"SpecialToken": {"id": "<s>", …}},
// {"Sequence": …}] } and may stand among other processors, each of which puts its tokens around
// what those before it made. Of several tokens in a row the outmost counts. What is no template
// puts nothing.
TextTemplate read_text_template(const Tree& tokenizer_json);

}  // namespace tessera
