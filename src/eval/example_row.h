// The row of an example in the file of `tessera eval --examples`.
#pragma once

#include "base/tree.h"
#include "eval/evaluate.h"

namespace tessera::eval {

// Returns the row of an example of a task: its line, whether it is right, and by its kind
//   choice       expected and choice, indices of options from 0; choice_length and
//                choice_unconditional by those metrics; log_likelihood, ln p of each option
//   last_word    expected, the response; log_likelihood
//   exact_match  expected, the correct answer; extracted, the answer in `written`, the generated
//                text; with TaskSpec::extract_last also right_last and extracted_last
Tree example_row(const TaskSpec& spec, const Example& example, const ExampleScore& score);

}  // namespace tessera::eval
