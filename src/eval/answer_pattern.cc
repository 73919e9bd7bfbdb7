// Matches with RE2, which is an automaton: it neither recurses nor backtracks, so no expression or
// text takes exponential time.
#include "eval/answer_pattern.h"

#include <re2/re2.h>

#include <algorithm>

#include "base/error.h"

namespace tessera {
namespace {

constexpr size_t kLongestPattern = 4096;  // bytes

RE2::Options quiet() {
  RE2::Options options;
  options.set_log_errors(false);
  return options;
}

}  // namespace

struct AnswerPattern::Compiled {
  RE2 expression;
};

AnswerPattern::AnswerPattern(const std::string& expression) {
  if (expression.size() > kLongestPattern)
    throw Error("the regular expression has {} bytes, expected at most {}", expression.size(),
                kLongestPattern);
  compiled_.reset(new Compiled{RE2(expression, quiet())});
  if (!compiled_->expression.ok())
    throw Error("the regular expression '{}' cannot be used: {}", expression,
                compiled_->expression.error());
}

AnswerPattern::~AnswerPattern() = default;

std::string AnswerPattern::find(std::string_view text) const {
  // Group 0 is the whole match, group 1 the first group of the expression.
  const int groups = std::min(compiled_->expression.NumberOfCapturingGroups(), 1);
  re2::StringPiece found[2];
  const re2::StringPiece all(text.data(), text.size());
  if (!compiled_->expression.Match(all, 0, all.size(), RE2::UNANCHORED, found, groups + 1))
    return "";
  const re2::StringPiece& answer = found[groups];
  return answer.data() == nullptr ? "" : std::string(answer.data(), answer.size());
}

}  // namespace tessera
