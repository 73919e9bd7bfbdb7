// Matching on character numbers. Every character of the text is replaced by the number of its
// class: two characters have the same number if each set of the expression contains both or
// neither. PCRE2 then matches bytes, whose sets are bitmaps of 256 bits, so that it needs no
// Unicode tables (which would be of another version), no decoding, and its JIT is fast. An
// expression has few classes: o200k's has about 30.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "data/expression.h"

#include <pcre2.h>

#include <algorithm>
#include <bitset>
#include <map>
#include <unordered_map>

#include "base/error.h"
#include "data/expression_syntax.h"
#include "data/unicode.h"

namespace tessera::data {
namespace {

constexpr size_t kMostSets = 192, kMostNumbers = 250;
// Steps of one match: a greedy run over the whole text needs one or two per character.
constexpr uint32_t kMostSteps = 1'000'000, kStepsPerCharacter = 8;
// The texts of a probe have kProbeCharacters of one or two classes; at most kProbedNumbers classes
// are used. Published expressions need up to 30 steps per character.
constexpr size_t kProbeCharacters = 512, kProbedNumbers = 24;
constexpr size_t kProbeStepsPerCharacter = 120;
constexpr size_t kJitStackBytes = 32 << 10, kLargestJitStackBytes = 8 << 20;
constexpr uint32_t kHeapKibibytes = 64 << 10;

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256] = {};
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

template <auto free>
struct Freed {
  template <class T>
  void operator()(T* p) const {
    free(p);
  }
};
using MatchData = std::unique_ptr<pcre2_match_data, Freed<pcre2_match_data_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Freed<pcre2_match_context_free>>;
using JitStack = std::unique_ptr<pcre2_jit_stack, Freed<pcre2_jit_stack_free>>;

using CompiledCode = std::unique_ptr<pcre2_code, Freed<pcre2_code_free>>;

// Compiles an expression over character numbers; `pattern` is how the user wrote it.
CompiledCode compile(const std::string& numbers, const std::string& pattern, uint32_t options) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  CompiledCode code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(numbers.data()), numbers.size(),
                    options | PCRE2_NEVER_UTF | PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C, &error,
                    &offset, nullptr));
  if (code == nullptr)
    throw Error("the expression '{}' is invalid: {}", pattern, message_of(error));
  return code;
}

// The work of a match: PCRE2 reports the position before each item of the expression.
struct Work {
  size_t steps = 0, at = 0, most = 0;
};

int count_work(pcre2_callout_block* block, void* data) {
  Work& work = *static_cast<Work*>(data);
  const size_t at = block->current_position;
  work.steps += 1 + (at > work.at ? at - work.at : work.at - at);
  work.at = at;
  return work.steps > work.most ? PCRE2_ERROR_CALLOUT : 0;
}

// Throws Error if the time of the expression is not in proportion to a text. It is tried on runs
// of each class and pair of classes of characters, without and with others at the end: a pattern
// such as (a+)+b or a+b, which scans the rest of a run from each position, is slow on one of them.
void check_time(const std::string& numbers, const std::string& pattern, size_t classes) {
  const CompiledCode code = compile(numbers, pattern, PCRE2_AUTO_CALLOUT | PCRE2_NO_START_OPTIMIZE);
  const MatchData data(pcre2_match_data_create(1, nullptr));
  const MatchContext context(pcre2_match_context_create(nullptr));
  CHECK(data && context, "PCRE2: out of memory");
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  Work work;
  work.most = kProbeStepsPerCharacter * kProbeCharacters;
  pcre2_set_callout(context.get(), count_work, &work);
  std::string ends;
  for (size_t c = 0; c < classes; ++c) ends += static_cast<char>(c);
  const size_t probed = std::min(classes, kProbedNumbers);
  for (size_t probe = 0; probe < 2 * probed * probed; ++probe) {
    const size_t pair = probe / 2;
    std::string text(kProbeCharacters, static_cast<char>(pair % probed));
    for (size_t i = 1; i < text.size(); i += 2) text[i] = static_cast<char>(pair / probed);
    if (probe % 2 == 1) text += ends;
    work.steps = work.at = 0;
    for (size_t from = 0; from < text.size();) {
      const int result = pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()),
                                     text.size(), from, 0, data.get(), context.get());
      if (result == PCRE2_ERROR_NOMATCH) break;
      if (result < 0)
        throw Error(
            "the expression '{}' can take more than linear time (over {} steps for {} "
            "characters). Simplify it: nested or adjacent repetitions of the same characters, and "
            "repetitions that the rest of the expression can reject, are slow",
            pattern, work.most, text.size());
      from = pcre2_get_ovector_pointer(data.get())[1];
    }
  }
}

// Counts the bytes of characters up to a position that only increases.
class Cursor {
 public:
  Cursor(std::string_view text, size_t characters)
      : text_(text), one_byte_each_(characters == text.size()) {}
  size_t bytes(size_t character) {
    if (one_byte_each_) return character;
    for (; character_ < character; ++character_) byte_ += decode_utf8(text_.substr(byte_)).bytes;
    return byte_;
  }

 private:
  std::string_view text_;
  bool one_byte_each_;
  size_t character_ = 0, byte_ = 0;
};

}  // namespace

struct Expression::Code {
  CompiledCode code;
};

Expression::~Expression() = default;
Expression::Expression(Expression&&) noexcept = default;
Expression& Expression::operator=(Expression&&) noexcept = default;

// Numbers the classes of characters and returns how many there are. members[s] lists the numbers in
// set s, as a set of PCRE2.
size_t Expression::number_characters(const std::vector<CodeSet>& sets,
                                     std::vector<std::string>& members) {
  std::map<uint32_t, std::vector<size_t>> edges;  // where the membership in sets changes
  edges[0];
  for (size_t s = 0; s < sets.size(); ++s) {
    for (const auto& [first, last] : sets[s].ranges()) {
      edges[first].push_back(s);
      edges[last + 1].push_back(s);
    }
  }
  std::unordered_map<std::bitset<kMostSets>, uint8_t> numbers;
  std::bitset<kMostSets> in;
  std::string page(256, 0);
  std::map<std::string, uint16_t> known_pages;
  auto edge = edges.begin();
  uint8_t number = 0;
  members.assign(sets.size(), "");
  for (uint32_t c = 0; c <= (CodeSet::kNotUtf8 | 0xFF); ++c) {
    if (edge != edges.end() && edge->first == c) {
      for (const size_t s : edge->second) in.flip(s);
      ++edge;
      const auto [found, added] = numbers.emplace(in, static_cast<uint8_t>(numbers.size()));
      number = found->second;
      if (numbers.size() > kMostNumbers)
        throw Error("the expression '{}' distinguishes more than {} kinds of characters", pattern_,
                    kMostNumbers);
      for (size_t s = 0; added && s < sets.size(); ++s)
        if (in[s]) members[s] += fmt::format("\\x{:02x}", number);
    }
    page[c & 255] = static_cast<char>(number);
    if ((c & 255) != 255) continue;
    const auto [at, added] = known_pages.emplace(page, static_cast<uint16_t>(known_pages.size()));
    if (added) pages_.insert(pages_.end(), page.begin(), page.end());
    page_of_.push_back(at->second);
  }
  for (std::string& set : members) set = set.empty() ? "[^\\x00-\\xff]" : fmt::format("[{}]", set);
  return numbers.size();
}

Expression::Expression(std::string_view pattern)
    : pattern_(pattern), code_(std::make_unique<Code>()) {
  const ParsedExpression parsed = parse_expression(pattern);
  if (parsed.sets.size() > kMostSets) {
    throw Error("the expression '{}' has {} different characters and sets, expected at most {}",
                pattern_, parsed.sets.size(), kMostSets);
  }
  std::vector<std::string> members;
  const size_t classes = number_characters(parsed.sets, members);
  std::string bytes;
  for (const auto& part : parsed.parts) bytes += part.set < 0 ? part.text : members[part.set];
  code_->code = compile(bytes, pattern_, 0);
  uint32_t empty = 0;
  pcre2_pattern_info(code_->code.get(), PCRE2_INFO_MATCHEMPTY, &empty);
  if (empty != 0) {
    throw Error(
        "the expression '{}' can match an empty text, expected one that matches at least "
        "one character",
        pattern_);
  }
  check_time(bytes, pattern_, classes);
  // Without a JIT for this machine, PCRE2 interprets.
  pcre2_jit_compile(code_->code.get(), PCRE2_JIT_COMPLETE);
}

std::string Expression::numbers_of(std::string_view text) const {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size();) {
    if (byte_at(text, i) < 0x80) {
      out += static_cast<char>(number_of(byte_at(text, i++)));
      continue;
    }
    const Utf8 u = decode_utf8(text.substr(i));
    out += static_cast<char>(number_of(u.code == Utf8::kInvalid ? CodeSet::kNotUtf8 : u.code));
    i += u.bytes;
  }
  return out;
}

void Expression::each_match(std::string_view text,
                            const std::function<void(PatternMatch)>& found) const {
  const std::string numbers = numbers_of(text);
  const pcre2_code* code = code_->code.get();
  const MatchData data(pcre2_match_data_create(1, nullptr));
  const MatchContext context(pcre2_match_context_create(nullptr));
  JitStack stack;
  CHECK(data && context, "PCRE2: out of memory");
  const uint64_t steps = kMostSteps + uint64_t{kStepsPerCharacter} * numbers.size();
  pcre2_set_match_limit(context.get(),
                        static_cast<uint32_t>(std::min<uint64_t>(steps, UINT32_MAX)));
  pcre2_set_heap_limit(context.get(), kHeapKibibytes);
  Cursor cursor(text, numbers.size());
  const auto match = [&](size_t from, uint32_t options) {
    return pcre2_match(code, reinterpret_cast<PCRE2_SPTR>(numbers.data()), numbers.size(), from,
                       options, data.get(), context.get());
  };
  for (size_t from = 0; from < numbers.size();) {
    int result = match(from, 0);
    if (result == PCRE2_ERROR_JIT_STACKLIMIT && stack == nullptr) {
      // Most matches need only the machine's stack.
      stack.reset(pcre2_jit_stack_create(kJitStackBytes, kLargestJitStackBytes, nullptr));
      pcre2_jit_stack_assign(context.get(), nullptr, stack.get());
      result = match(from, 0);
    }
    if (result == PCRE2_ERROR_NOMATCH) return;
    if (result < 0)
      throw Error(
          "the expression '{}' needs more than {} steps after character {} of a text of {} "
          "({}). Simplify the expression of the tokenizer, or split the text",
          pattern_, steps, from, numbers.size(), message_of(result));
    const PCRE2_SIZE* at = pcre2_get_ovector_pointer(data.get());
    const size_t begin = cursor.bytes(at[0]);
    found({begin, cursor.bytes(at[1])});
    from = at[1];
  }
}

}  // namespace tessera::data
