// One number in the text of a program is changed; reading the text or proving the program must
// find it. What may be accepted is another legal program, by the list below.
//
// TESSERA_MUTATIONS=2000 gives each of many programs that many changes; without it a sample of
// each field is changed.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <map>
#include <set>

#include "compile/check/check.h"
#include "compile/compile.h"
#include "compile/graph/name_patterns.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "tests/compile/random_layout.h"

namespace tessera::compile {
namespace {

using testing::LayoutDraw;

// A number of a text: where it is, and the name of its field, such as "segments norm.epsilon".
struct Number {
  size_t at = 0, length = 0;
  std::string field;
};

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)); }

// Walks over a text and names its numbers by the section, the op and the key before them.
class NumberFinder {
 public:
  explicit NumberFinder(const std::string& text) : text_(text) {}

  std::vector<Number> find() {
    for (size_t line = 0; line < text_.size();) {
      const size_t end = std::min(text_.find('\n', line), text_.size());
      if (text_[line] != ' ')
        section_ = text_.substr(line, text_.find_first_of(" \n", line) - line);
      read_line(line, end);
      line = end + 1;
    }
    return std::move(numbers_);
  }

 private:
  void read_line(size_t from, size_t end) {
    op_ = key_ = "";
    const size_t equals = text_.find(" = ", from);
    if (equals < end) op_ = text_.substr(equals + 3, text_.find(' ', equals + 3) - equals - 3);
    bool quoted = false, typed = false;
    int brackets = 0;
    for (size_t at = from; at < end;) {
      const char c = text_[at];
      if (c == '"') quoted = !quoted;
      if (c == '[') ++brackets;
      if (c == ']') --brackets;
      if (c == ' ' && !quoted && brackets == 0) last_key_ = key_, key_ = "";
      if (text_.compare(at, 3, " : ") == 0) typed = true;
      if (is_letter(c)) {
        const size_t word = at;
        while (at < end && (is_letter(text_[at]) || is_digit(text_[at]) || text_[at] == '.' ||
                            text_[at] == '\''))
          ++at;
        if (!quoted && at < end && text_[at] == '=') key_ = text_.substr(word, at - word);
        if (at < end && text_[at] == ':') axis_ = text_.substr(word, at - word);
        continue;
      }
      if (is_digit(c) || (c == '-' && at + 1 < end && is_digit(text_[at + 1]))) {
        at = read_number(at, quoted, typed, brackets > 0);
        continue;
      }
      ++at;
    }
  }

  // Returns where the number ends.
  size_t read_number(size_t at, bool quoted, bool typed, bool in_brackets) {
    size_t end = at + 1;
    const bool mantissa = !quoted;
    while (end < text_.size() &&
           (is_digit(text_[end]) || (mantissa && text_[end] == '.') ||
            (mantissa && text_[end] == 'e') || (text_[end] == '-' && text_[end - 1] == 'e')))
      ++end;
    std::string field = section_ + " " + (op_.empty() ? "" : op_ + ".") + key_;
    if (in_brackets && key_.empty()) field += last_key_ == "whole" ? "whole" : "shape";
    if (typed) field = section_ + " type";
    if (key_ == "mesh") field += "." + axis_;
    const char before = at > 0 ? text_[at - 1] : ' ';
    if (std::string_view("%$@#").find(before) != std::string_view::npos) field += before;
    numbers_.push_back({at, end - at, field});
    return end;
  }

  const std::string& text_;
  std::string section_, op_, key_, last_key_, axis_;
  std::vector<Number> numbers_;
};

// The values that a number is changed to.
std::vector<std::string> changes_of(const std::string& number) {
  const bool real = number.find_first_of(".e") != std::string::npos;
  if (real) {
    const double x = std::atof(number.c_str());
    return {fmt::format("{}", 2 * x + 0.1), "0.0", fmt::format("{}", -x - 0.1), "1e300", "inf"};
  }
  const int64_t x = std::atoll(number.c_str());
  std::vector<std::string> all;
  for (const int64_t y : {x + 1, x - 1, 2 * x, int64_t{0}, -x, -x - 7, x + 64, int64_t{1} << 62})
    if (y != x) all.push_back(fmt::format("{}", y));
  return all;
}

enum class Outcome { kUnread, kSame, kFound, kAborted, kAccepted, kCrashed };

// What becomes of the stages in a process of its own, since rules abort on operands that no pass
// makes.
Outcome prove_apart(const std::vector<Program>& stages) {
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    const rlimit no_core = {0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    alarm(120);
    if (freopen("/dev/null", "w", stderr) == nullptr) _exit(9);
    try {
      _exit(prove(stages).empty() ? 0 : 1);
    } catch (...) {
      _exit(9);
    }
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return Outcome::kAccepted;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 1) return Outcome::kFound;
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? Outcome::kAborted : Outcome::kCrashed;
}

struct Tally {
  int mutants = 0;
  std::map<Outcome, int> outcomes;
  std::map<std::string, std::vector<std::string>> accepted;  // by field: examples
};

std::string line_at(const std::string& text, size_t at) {
  const size_t from = text.rfind('\n', at) + 1;
  return text.substr(from, text.find('\n', at) - from).substr(0, 160);
}

// The programs of one request, and the texts of their stages.
class Mutations {
 public:
  Mutations(std::vector<Program> stages, LayoutDraw& draw)
      : stages_(std::move(stages)), draw_(draw) {
    for (const Program& p : stages_) texts_.push_back(tessera::print(p));
    for (const std::string& text : texts_) numbers_.push_back(NumberFinder(text).find());
  }

  // Changes up to `per_field` numbers of each field.
  void run_fields(int64_t per_field, Tally& tally) {
    const auto s = static_cast<size_t>(draw_.number(0, std::ssize(texts_) - 1));
    std::map<std::string, std::vector<Number>> by_field;
    for (const Number& n : numbers_[s]) by_field[n.field].push_back(n);
    for (const auto& [field, numbers] : by_field)
      for (int64_t i = 0; i < per_field; ++i) change(s, draw_.one_of(numbers), tally);
  }
  void run_any(int64_t count, Tally& tally) {
    for (int64_t i = 0; i < count; ++i) {
      const auto s = static_cast<size_t>(draw_.number(0, std::ssize(texts_) - 1));
      change(s, draw_.one_of(numbers_[s]), tally);
    }
  }

 private:
  void change(size_t stage, const Number& n, Tally& tally) {
    const std::string& text = texts_[stage];
    const std::string changed = draw_.one_of(changes_of(text.substr(n.at, n.length)));
    std::string other = text;
    other.replace(n.at, n.length, changed);
    const Outcome outcome = outcome_of(stage, other);
    ++tally.mutants;
    ++tally.outcomes[outcome];
    const std::string example =
        fmt::format("{} -> {} in {}", text.substr(n.at, n.length), changed, line_at(text, n.at));
    EXPECT_NE(outcome, Outcome::kCrashed) << n.field << ": " << example;
    if (outcome == Outcome::kAccepted) tally.accepted[n.field].push_back(example);
  }

  Outcome outcome_of(size_t stage, const std::string& text) {
    try {
      Program p = parse_program(text, "text");
      if (p == stages_[stage]) return Outcome::kSame;
      std::vector<Program> all = stages_;
      all[stage] = std::move(p);
      return prove_apart(all);
    } catch (const Error&) {
      return Outcome::kUnread;
    }
  }

  std::vector<Program> stages_;
  LayoutDraw& draw_;
  std::vector<std::string> texts_;
  std::vector<std::vector<Number>> numbers_;
};

// A target that asks for a workspace for each product and for packed forms of weights that are not
// divided.
Target asking_target() {
  Target t;
  t.workspace_bytes = [](const Op& op, ValueSpan values) {
    if (is_staged(op)) return staged_bytes(op, values);
    return op.inputs.size() > 1 ? int64_t{1000} : int64_t{0};
  };
  t.packed_bytes = [](const Op& op, ValueSpan values) {
    return values[op.inputs[1]].part ? int64_t{0} : int64_t{7000};
  };
  return t;
}

// Fields whose changes may give another legal program, and why. A field of the list has '*' for
// any text.
struct Legal {
  const char* field;
  const char* reason;
};
constexpr Legal kLegal[] = {
    {"values std", "weights start with any deviation that is finite and not negative"},
    {"values constant", "weights start with any finite constant"},
    {"segments *.epsilon", "any number of its range"},
    {"segments *.beta1", "any number of its range"},
    {"segments *.beta2", "any number of its range"},
    {"segments *.decay", "any number of its range"},
    {"segments *.decay_power", "any number of its range"},
    {"segments *.nesterov", "either rule"},
    {"segments *.update_clip", "any number of its range"},
    {"segments *.least_scale", "any number of its range"},
    {"segments *.momentum", "any number of its range"},
    {"segments newton_schulz.steps", "any number of its range"},
    {"segments newton_schulz.coefficients", "any set of coefficients"},
    {"segments clip.norm", "any number of its range"},
    {"segments *.scale", "a factor of a product may be any finite number"},
    {"segments scale.factor", "a factor may be any finite number"},
    {"segments scale.rounded", "rounds the factor or not"},
    {"segments *.window", "any number of its range"},
    {"segments *.soft_cap", "any number of its range"},
    {"segments soft_cap.cap", "any number of its range"},
    {"segments *.z_loss", "any number of its range"},
    {"segments *.balance", "any number of its range"},
    {"segments *.label_smoothing", "any number of its range"},
    {"segments *.weight", "the factor of a loss may be any number of its range"},
    {"segments *.mtp", "a loss is reported as that of the next token or of a later one"},
    {"segments *.unit_offset", "gains are stored with or without their 1"},
    {"segments *.p", "a probability, where no other op has the same mask"},
    {"segments *.dropout", "a probability, where no other op has the same mask"},
    {"segments *.key", "masks are keyed by any number, where no other op has the same mask"},
    {"segments rotary.dims", "any even number up to the width of a head"},
    {"segments rotary.base", "any number of its range"},
    {"segments rotary.factor", "any number of its range"},
    {"segments rotary.low", "any number of its range"},
    {"segments rotary.high", "any number of its range"},
    {"segments rotary.context", "any number of its range"},
    {"segments rotary.truncate", "rounds the bounds or not"},
    {"segments rotary.magnitude", "any number of its range"},
    {"segments rotary.dividers", "any number of its range"},
    {"segments rotary.inverse", "turns either way"},
    {"segments *.bias_distance", "any distance beyond the near half of the buckets"},
    {"segments attention.non_causal", "where no gradient says otherwise"},
    {"segments *.%", "reads or writes another value of the same type that is there"},
    {"segments *.workspace%", "another workspace, where no target says how large it is"},
    {"segments sum.terms", "a term may count as a bias that has all dimensions"},
    {"program mesh.replica", "any number of replicas computes the same"},
    {"kinds %", "another value of the same bytes, where no op uses either"},
    {"values policy", "of a gradient, whose weight says which optimizer updates it"},
    {"values first", "a row of a head that attention scores limit"},
    {"values last", "a row of a head that attention scores limit"},
    {"values share", "any power from 0 to 1 of the factor of attention scores"},
    {"segments *.score_limit", "any number above 0"},
    {"values shape", "of a workspace, where no target says how large it is, or of no op"},
    {"values offset", "other bytes of the buffer or scratch that nothing else uses at the time"},
    {"buffers layer", "a buffer that is the only one of its kind needs no layer"},
    {"buffers mb", "a buffer that is the only one of its kind needs no micro-batch"},
    {"buffers offset", "other bytes that nothing else uses at the time"},
    {"calls layer", "a call that is the only one of its segment needs no layer"},
    {"calls after#", "another wait that still orders what touches the same bytes"},
    {"calls before_step#", "another wait that still orders what touches the same bytes"},
    {"program state", "padding at the end, less than kScratchAlignment"},
    {"program scratch", "padding at the end, less than kScratchAlignment"},
    {"program bytes", "padding at the end, less than kScratchAlignment"},
    {"program host", "padding at the end, less than kScratchAlignment"},
    {"kinds bytes", "padding at the end, up to the units of ZeRO"},
    {"segments scratch", "padding at the end, less than kScratchAlignment"},
};

bool is_legal(const std::string& field) {
  return std::any_of(std::begin(kLegal), std::end(kLegal),
                     [&](const Legal& l) { return matches(l.field, field); });
}

TEST(CheckNumbers, AChangedNumberIsFound) {
  const char* const asked = std::getenv("TESSERA_MUTATIONS");
  const int64_t each = asked != nullptr ? std::atoll(asked) : 0;
  LayoutDraw draw(7);
  Tally tally;
  for (int i = 0; i < (each > 0 ? 40 : 6); ++i) {
    const CompileRequest r = draw.request(8);
    SCOPED_TRACE(testing::text_of(r));
    const Target target = i % 2 == 0 ? asking_target() : Target();
    const std::vector<Program> stages = compile_stages(r, target);
    ASSERT_EQ(prove(stages, &target), std::vector<std::string>());
    Mutations m(stages, draw);
    if (each > 0)
      m.run_any(each, tally);
    else
      m.run_fields(2, tally);
  }
  fmt::print("{} changes: {} not read, {} the same program, {} found, {} aborted, {} accepted\n",
             tally.mutants, tally.outcomes[Outcome::kUnread], tally.outcomes[Outcome::kSame],
             tally.outcomes[Outcome::kFound], tally.outcomes[Outcome::kAborted],
             tally.outcomes[Outcome::kAccepted]);
  for (const auto& [field, examples] : tally.accepted)
    EXPECT_TRUE(is_legal(field)) << field << ": " << examples[0];
  EXPECT_GT(tally.outcomes[Outcome::kFound], tally.mutants / 4);
  EXPECT_LT(tally.outcomes[Outcome::kAccepted], tally.mutants / 5);
}

// Changes of one object of a program, each of which proving must find.
class Wrong {
 public:
  explicit Wrong(const Program& p) : p_(p) {}

  std::vector<std::pair<std::string, Program>> all() {
    for (const ValueId v : p_.values.ids()) {
      change_part(v);
      move_to_another_kind(v);
    }
    for (const BufferId f : p_.buffers.ids()) change_microbatch(f);
    for (const CallId c : p_.schedule.ids()) {
      drop_layer(c);
      read_own_gradient(c);
    }
    return std::move(all_);
  }

 private:
  template <class Change>
  void add(const std::string& name, const Change& change) {
    if (++made_[name] > 2) return;  // two of each kind
    Program p = p_;
    change(p);
    all_.emplace_back(name, std::move(p));
  }

  void change_part(ValueId v) {
    if (!p_[v].parent || p_[v].role == Role::kWeight) return;
    add("the part of a gradient", [&](Program& p) { ++p.values[v].parent->shape[1]; });
  }

  // A flat value goes to a kind that has more bytes.
  void move_to_another_kind(ValueId v) {
    const BufferKindId kind = p_[v].buffer;
    if (kind == kNone || p_[v].is_local_shard || p_[v].shape.rank() != 1 ||
        p_.kind(kind).like == kNone)
      return;
    for (const BufferKindId k : p_.kinds.ids())
      if (p_.kind(k).bytes > p_.kind(kind).bytes && !p_.kind(k).values.empty())
        return add("the kind of a flat value", [&](Program& p) { p.values[v].buffer = k; });
  }

  int64_t buffers_of(BufferKindId kind) const {
    return std::count_if(p_.buffers.begin(), p_.buffers.end(),
                         [&](const Buffer& f) { return f.kind == kind; });
  }
  void change_microbatch(BufferId f) {
    const Buffer& buffer = p_.buffer(f);
    if (buffer.microbatch == kNone || buffers_of(buffer.kind) < 2) return;
    if (buffer.state)
      add("a batch", [&](Program& p) { p.buffers[f].microbatch += buffers_of(buffer.kind); });
    else if ((p_.kind(buffer.kind).indexed_by & kPerMicrobatch) == 0)
      add("a buffer without micro-batch", [&](Program& p) { p.buffers[f].microbatch = kNone; });
  }

  void drop_layer(CallId c) {
    const Call& call = p_.call(c);
    const auto calls =
        std::count_if(p_.schedule.begin(), p_.schedule.end(),
                      [&](const Call& other) { return other.segment == call.segment; });
    if (call.layer == kNone || calls < 2) return;
    add("a call without layer", [&](Program& p) { p.schedule[c].layer = kNone; });
  }

  // The gradient of the layer's input, in place of that of its output.
  void read_own_gradient(CallId c) {
    const Call& call = p_.call(c);
    if (p_.segment(call).phase != Phase::kWeightBackward) return;
    for (size_t i = 0; i < call.buffers.size(); ++i) {
      const Buffer& read = p_.buffer(call.buffers[i]);
      const auto& values = p_.kind(read.kind).values;
      if (values.empty() || p_[values[0]].role != Role::kHiddenGradient) continue;
      for (const BufferId f : p_.buffers.ids())
        if (p_.buffer(f).kind == read.kind && p_.buffer(f).layer == read.layer - 1 &&
            p_.buffer(f).microbatch == read.microbatch)
          add("the gradient of another layer", [&](Program& p) { p.schedule[c].buffers[i] = f; });
    }
  }

  const Program& p_;
  std::map<std::string, int> made_;
  std::vector<std::pair<std::string, Program>> all_;
};

TEST(CheckNumbers, ALabelOrAPartThatDiffersIsFound) {
  LayoutDraw draw(11);
  std::map<std::string, int> made;
  for (int i = 0; i < 180; ++i) {
    const CompileRequest r = draw.request(8);
    SCOPED_TRACE(testing::text_of(r));
    const std::vector<Program> stages = compile_stages(r, Target());
    const auto s = static_cast<size_t>(draw.number(0, std::ssize(stages) - 1));
    for (auto& [name, changed] : Wrong(stages[s]).all()) {
      std::vector<Program> others = stages;
      others[s] = std::move(changed);
      ++made[name];
      const Outcome outcome = prove_apart(others);
      EXPECT_TRUE(outcome == Outcome::kFound || outcome == Outcome::kAborted) << name;
    }
  }
  EXPECT_EQ(made.size(), 6u);
  for (const auto& [name, count] : made) EXPECT_GT(count, 2) << name;
}

}  // namespace
}  // namespace tessera::compile
