// The host reads the log-probabilities of answers that the loss reads.
#include <gtest/gtest.h>

#include "tests/compile/passes/pass_text.h"

namespace tessera::compile {

TEST(Passes, KeepAnswerSums) {
  CompileRequest r = testing::tiny_request();
  r.kind = ProgramKind::kValidate;
  r.preference = PreferenceTerms{.kind = PreferenceKind::kIpo, .mean = true};
  r.keep_answer_sums = true;
  testing::expect_change("keep_answer_sums", r);
}

}  // namespace tessera::compile
