#include "compile/check/check.h"

#include <iterator>

#include "base/error.h"
#include "compile/check/check_parts.h"
#include "ir/verify.h"

namespace tessera {
namespace {

void append(std::vector<Finding>& all, std::vector<Finding> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace

std::vector<Finding> check(const std::vector<const Program*>& ranks) {
  std::vector<Finding> findings;
  const auto each = [&](const auto& part) {
    for (size_t r = 0; r < ranks.size(); ++r) append(findings, part(r));
    return !findings.empty();
  };
  if (each([&](size_t r) { return check_wires(*ranks[r], static_cast<int>(r)); })) return findings;
  const ChannelNames names = channel_names(ranks);
  append(findings, check_match(ranks, names));
  if (!findings.empty()) return findings;
  RunOrder order;
  append(findings, check_cycle(ranks, names, order));
  if (!findings.empty()) return findings;
  if (each([&](size_t r) { return check_race(*ranks[r], static_cast<int>(r), order[r]); }))
    return findings;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const auto rank = static_cast<int>(r);
    std::vector<Finding> values = check_value(*ranks[r], rank, order[r]);
    if (values.empty()) values = check_unread(*ranks[r], rank, order[r]);
    append(findings, std::move(values));
    append(findings, check_calls(*ranks[r], rank));
    append(findings, check_own(*ranks[r], rank, order[r]));
    append(findings, check_sums(*ranks[r], rank, order[r]));
  }
  return findings;
}

std::vector<std::string> prove(const std::vector<Program>& stages) {
  std::vector<std::string> out;
  std::vector<const Program*> ranks;
  for (const Program& p : stages) {
    for (std::string& fault : verify(p)) out.push_back(std::move(fault));
    ranks.push_back(&p);
  }
  if (!out.empty()) return out;
  for (const Finding& f : check(ranks)) out.push_back(fmt::format("{}: {}", f.kind, f.text));
  return out;
}

}  // namespace tessera
