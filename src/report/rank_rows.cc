// Groups the ranks of ranks.json by what they do, so that a thousand ranks fit a few lines: "ranks
// 0-2, 5 wait 31.0 s at step 40: all-reduce". The group that has been in its state longest comes
// first, because it is the one that explains a hang. The launcher replaces the file while it is
// read; a file that is damaged or missing shows no lines.
#include "report/screen.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "base/count.h"
#include "base/tree.h"

namespace tessera::report {
namespace {

// The ranks of one line, which have these texts in common.
struct Group {
  std::vector<int64_t> ranks;
  double since_s = 0;  // the longest
};
using Key = std::tuple<std::string, bool, int64_t, std::string>;  // state, waits, step, activity

std::string text_in(const Tree& rank, std::string_view key) {
  const Tree* const member = rank.find(key);
  return member && member->as_string() ? *member->as_string() : "";
}

double number_of(const Tree& rank, std::string_view key) {
  const Tree* const member = rank.find(key);
  return member ? number_in(*member).value_or(0) : 0;
}

int64_t integer_of(const Tree& rank, std::string_view key) {
  const Tree* const member = rank.find(key);
  const auto* const n = member ? std::get_if<int64_t>(&member->value) : nullptr;
  return n ? *n : 0;
}

// "rank 3", "ranks 0-2, 5"; `ranks` ascends.
std::string names_of_ranks(const std::vector<int64_t>& ranks) {
  std::string out;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    out += fmt::format("{}{}", out.empty() ? "" : ", ", ranks[i]);
    if (end > i + 1) out += fmt::format("-{}", ranks[end - 1]);
    i = end;
  }
  return (ranks.size() == 1 ? "rank " : "ranks ") + out;
}

std::string line_of(const Key& key, const Group& group) {
  const auto& [state, waits, step, doing] = key;
  std::string line = names_of_ranks(group.ranks);
  if (state != "runs") return fmt::format("{}: {}", line, state);
  const bool one = group.ranks.size() == 1;
  line += waits ? (one ? " waits" : " wait") : (one ? " runs" : " run");
  line += fmt::format(" {:.1f} s", group.since_s);
  if (step > 0) line += " at step " + format_count(step);
  return doing.empty() ? line : line + ": " + doing;
}

}  // namespace

std::vector<std::string> rank_lines(const Path& run_directory) {
  const Path file = run_directory / "ranks.json";
  std::map<Key, Group> groups;
  try {
    if (!std::filesystem::exists(file)) return {};
    const Tree tree = parse_json(read_file(file), file.string());
    const Tree* const ranks = tree.as_members() ? tree.find("ranks") : nullptr;
    if (!ranks || !ranks->as_list()) return {};
    for (const Tree& rank : *ranks->as_list()) {
      if (!rank.as_members()) continue;
      const Tree* const waits = rank.find("waits");
      const auto* const flag = waits ? std::get_if<bool>(&waits->value) : nullptr;
      Group& group = groups[{text_in(rank, "state"), flag && *flag, integer_of(rank, "step"),
                             text_in(rank, "doing")}];
      group.ranks.push_back(integer_of(rank, "rank"));
      group.since_s = std::max(group.since_s, number_of(rank, "since_s"));
    }
  } catch (const std::exception&) {
    return {};  // damaged, or removed while it was read
  }
  std::vector<const std::pair<const Key, Group>*> order;
  for (const auto& group : groups) order.push_back(&group);
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    return a->second.since_s > b->second.since_s;
  });
  std::vector<std::string> lines;
  for (const auto* group : order) lines.push_back(line_of(group->first, group->second));
  return lines;
}

}  // namespace tessera::report
