// Writes the counts of instruction data as text and as JSON.
#include "data/instruction_counts.h"

#include "base/count.h"
#include "base/error.h"
#include "base/real.h"
#include "data/chat_notes.h"

namespace tessera::data {
namespace {

std::string counted(int64_t count, const char* what) {
  return fmt::format("{} {}{}", format_count(count), what, count == 1 ? "" : "s");
}

Tree texts(const std::vector<std::string>& all) {
  Tree list = Tree::list();
  for (const std::string& text : all) list.push(Tree(text));
  return list;
}

}  // namespace

void InstructionCounts::add_notes(const ChatNotes& notes) {
  unread.assign(notes.unread.begin(), notes.unread.end());
  warnings = data::warnings(notes);
}

std::string skipped_reasons(const InstructionCounts& c) {
  std::string reasons;
  const auto add = [&](int64_t count, const char* reason) {
    if (count == 0) return;
    reasons += fmt::format("{}{} {}", reasons.empty() ? "" : ", ", format_count(count), reason);
  };
  add(c.skipped_long, "too long");
  add(c.skipped_empty, "without response tokens within the row length");
  return reasons;
}

std::string describe(const InstructionCounts& c) {
  std::string line =
      fmt::format("{} in {} · {} tokens, {} of them in responses · {:.1f} % padding",
                  c.pairs > 0 ? counted(c.pairs, "pair") : counted(c.examples, "example"),
                  counted(c.rows, "row"), format_count(c.tokens), format_count(c.response_tokens),
                  c.positions == 0 ? 0 : 100 * ratio(c.padding, c.positions));
  if (!c.forms.empty()) line += " · form: " + c.forms;
  if (!c.unread.empty()) line += fmt::format(" · keys not read: {}", fmt::join(c.unread, ", "));
  if (c.truncated > 0) line += fmt::format(" · truncated: {}", format_count(c.truncated));
  const std::string reasons = skipped_reasons(c);
  if (!reasons.empty()) line += fmt::format(" · skipped: {}", reasons);
  return line;
}

Tree to_tree(const InstructionCounts& c) {
  Tree skipped, t;
  skipped.set("too_long", Tree(c.skipped_long));
  skipped.set("without_response", Tree(c.skipped_empty));
  t.set("examples", Tree(c.examples));
  if (c.pairs > 0) t.set("pairs", Tree(c.pairs));
  t.set("rows", Tree(c.rows));
  t.set("tokens", Tree(c.tokens));
  t.set("response_tokens", Tree(c.response_tokens));
  t.set("padding", Tree(c.padding));
  t.set("truncated", Tree(c.truncated));
  if (!c.forms.empty()) t.set("forms", Tree(c.forms));
  if (!c.unread.empty()) t.set("unread_keys", texts(c.unread));
  if (!c.warnings.empty()) t.set("warnings", texts(c.warnings));
  t.set("skipped", std::move(skipped));
  return t;
}

}  // namespace tessera::data
