// Checks a step in an order in which each check may assume the earlier ones: wires match what the
// ops do; transfers match on all ranks; no ranks wait in a cycle (this also gives an order in which
// the step can run); calls that share bytes are ordered; and a symbolic run in that order finds
// every value where it is read.
#include "compile/check/check.h"

#include <map>

#include "base/error.h"
#include "compile/check/check_parts.h"
#include "ir/verify.h"

namespace tessera::compile {
namespace {

// Checks that there is one program per stage, in order, and that all agree on the mesh and on the
// stages that hold each buffer kind.
std::vector<std::string> verify_stages(const std::vector<Program>& stages) {
  std::vector<std::string> findings;
  const Program& first = stages.at(0);
  for (int64_t s = 0; s < std::ssize(stages); ++s) {
    const Program& p = stages[s];
    if (p.mesh != first.mesh || p.mesh[AxisKind::kPipeline] != std::ssize(stages) || p.stage != s)
      findings.push_back(fmt::format("program {} of {} is of stage {} of {}, or of another mesh", s,
                                     stages.size(), p.stage, p.mesh[AxisKind::kPipeline]));
    std::map<std::string, const BufferKind*> known;
    for (const BufferKind& k : first.kinds) known.emplace(k.name, &k);
    for (const BufferKind& k : p.kinds)
      if (const auto same = known.find(k.name);
          same != known.end() && same->second->stages != k.stages)
        findings.push_back(fmt::format("{}: stages 0 and {} disagree about the stages that hold it",
                                       k.name, p.stage));
  }
  return findings;
}

}  // namespace

std::vector<Finding> check(const std::vector<const Program*>& ranks) {
  std::vector<Finding> findings;
  const auto each = [&](const auto& part) {
    for (int r = 0; r < std::ssize(ranks); ++r) append(findings, part(r));
    return !findings.empty();
  };
  if (each([&](int r) { return check_wires(*ranks[r], r); })) return findings;
  const ChannelNames names = channel_names(ranks);
  append(findings, check_match(ranks, names));
  if (!findings.empty()) return findings;
  RunOrder order;
  append(findings, check_cycle(ranks, names, order));
  if (!findings.empty()) return findings;
  if (each([&](int r) { return check_race(*ranks[r], r, order[r]); })) return findings;
  for (int rank = 0; rank < std::ssize(ranks); ++rank) {
    std::vector<Finding> values = check_value(*ranks[rank], rank, order[rank]);
    if (values.empty()) values = check_unread(*ranks[rank], rank, order[rank]);
    append(findings, std::move(values));
    append(findings, check_calls(*ranks[rank], rank));
    append(findings, check_own(*ranks[rank], rank, order[rank]));
    append(findings, check_sums(*ranks[rank], rank, order[rank]));
  }
  return findings;
}

std::vector<std::string> prove(const std::vector<Program>& stages, const Target* target) {
  std::vector<std::string> out = verify_stages(stages);
  if (!out.empty()) return out;
  std::vector<const Program*> ranks;
  for (const Program& p : stages) {
    std::vector<std::string> faults = verify(p);
    if (faults.empty()) faults = verify_arena(p);
    if (faults.empty() && target != nullptr) faults = verify_target(p, *target);
    append(out, std::move(faults));
    ranks.push_back(&p);
  }
  if (!out.empty()) return out;
  for (const Finding& f : check(ranks)) out.push_back(fmt::format("{}: {}", f.kind, f.text));
  return out;
}

}  // namespace tessera::compile
