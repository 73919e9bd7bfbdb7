// Writes the paragraph about a failure: the failed rank, its activity, and that of the other ranks.
// Ranks in the same call are grouped, since with many ranks most of them wait in the same
// collective.
#include "launch/rank_monitor.h"

#include <algorithm>
#include <map>

#include "base/count.h"
#include "base/error.h"

namespace tessera::launch {
namespace {

using Phase = RankState::Phase;

constexpr size_t kMostGroups = 3;   // groups of other ranks that are listed
constexpr double kWaitsAWhile = 1;  // seconds; the duration of longer waits is reported

// Returns an activity such as "step 12, forward of layer 3", without the step before the first one.
std::string place_of(const HeartbeatMessage& beat) {
  const std::string what = beat.text.empty() ? "startup" : beat.text;
  return beat.step > 0 ? fmt::format("step {}, {}", format_count(beat.step), what) : what;
}

std::string on(const HeartbeatMessage& hello) {
  return fmt::format("(host {}, process {})", hello.host, hello.pid);
}

std::string memory_of(const RankState& r) {
  // Above 80 % of its memory limit, a killed process was probably ended by the out-of-memory
  // killer.
  const auto used = static_cast<double>(r.beat.resident_bytes);
  const auto may = static_cast<double>(r.hello.memory_bytes);
  if (may <= 0 || used < 0.8 * may) return "";
  return fmt::format(
      " It used {:.1f} of its limit of {:.1f} GiB: the out-of-memory killer may have ended it.",
      gib(used), gib(may));
}

std::string capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z')
    text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

// Returns true if all ranks of the failed rank's host failed with it, and there are others
// elsewhere.
bool whole_host(std::span<const int> failed, std::span<const RankState> ranks) {
  const std::string& host = ranks[failed[0]].hello.host;
  bool elsewhere = false;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const bool in = std::find(failed.begin(), failed.end(), static_cast<int>(i)) != failed.end();
    if (in != (ranks[i].hello.host == host)) return false;
    elsewhere = elsewhere || !in;
  }
  return elsewhere;
}

// Describes the activity of the other ranks: first those in the same call as the failed one, then
// the largest groups.
std::string others(std::span<const int> failed, std::span<const RankState> ranks, double clock_s) {
  struct Group {
    std::string place;
    std::vector<int> members;
    double waited_s = 0;
  };
  const RankState& first = ranks[failed[0]];
  std::vector<Group> groups;
  for (int i = 0; i < std::ssize(ranks); ++i) {
    const RankState& r = ranks[i];
    if (std::find(failed.begin(), failed.end(), i) != failed.end()) continue;
    if (r.phase == Phase::kAwaited || r.phase == Phase::kLeft) continue;
    const std::string place = place_of(r.beat);
    auto at = std::find_if(groups.begin(), groups.end(),
                           [&](const Group& g) { return g.place == place; });
    if (at == groups.end()) at = groups.insert(groups.end(), Group{place, {}, 0});
    at->members.push_back(i);
    // The wait continued after the last beat, so the time since then is added.
    if (r.beat.waits) at->waited_s = std::max(at->waited_s, r.beat.since_s + clock_s - r.heard_s);
  }
  const std::string its = first.hello.host.empty() ? "" : place_of(first.beat);
  std::stable_sort(groups.begin(), groups.end(), [&](const Group& a, const Group& b) {
    if ((a.place == its) != (b.place == its)) return a.place == its;
    return a.members.size() > b.members.size();
  });
  std::string out;
  size_t shown = 0, left = 0;
  for (const Group& g : groups) {
    if (shown++ >= kMostGroups) {
      left += g.members.size();
      continue;
    }
    const std::string waited =
        g.waited_s > kWaitsAWhile ? fmt::format(", waiting for {:.1f} s", g.waited_s) : "";
    out += fmt::format(" {} {} in {}{}.", capital(name_ranks(g.members)),
                       g.members.size() > 1 ? "were" : "was",
                       g.place == its ? "the same call" : g.place, waited);
  }
  if (left > 0) out += fmt::format(" The other {} were elsewhere.", left);
  return out;
}

std::string last_words(const RankState& r) {
  return r.last_line.empty() ? "" : fmt::format(" Its last line: \"{}\".", r.last_line);
}

std::string silent(std::span<const int> failed, std::span<const RankState> ranks, double clock_s) {
  const RankState& r = ranks[failed[0]];
  const double ago = clock_s - r.heard_s;
  std::vector<int> sorted(failed.begin(), failed.end());
  std::sort(sorted.begin(), sorted.end());
  if (failed.size() == 1)
    return fmt::format("rank {} {} stopped answering {:.1f} s ago, in {}", failed[0], on(r.hello),
                       ago, place_of(r.beat));
  const std::string which =
      whole_host(failed, ranks) ? fmt::format(", all of host {},", r.hello.host) : "";
  return fmt::format("{}{} stopped answering {:.1f} s ago; rank {} {} was in {}",
                     name_ranks(sorted), which, ago, failed[0], on(r.hello), place_of(r.beat));
}

std::string died(int rank, const RankState& r) {
  const std::string how = r.ending.empty() ? "" : fmt::format(" ({})", r.ending);
  if (r.hello.host.empty()) return fmt::format("rank {} died{} before it had reported", rank, how);
  return fmt::format("rank {} {} died{}; {:.1f} s earlier it was in {}", rank, on(r.hello), how,
                     r.died_s - r.heard_s, place_of(r.beat));
}

// mpirun does not always report which rank died first, and a rank that died before its hello leaves
// no other trace.
std::string unreported(std::span<const RankState> ranks) {
  std::vector<int> missing;
  for (int i = 0; i < std::ssize(ranks); ++i)
    if (ranks[i].phase == Phase::kAwaited) missing.push_back(i);
  if (missing.empty() || missing.size() == ranks.size()) return "";
  return fmt::format(" {} had not reported, and may have died first.",
                     capital(name_ranks(missing)));
}

std::string error(std::span<const int> failed, std::span<const RankState> ranks) {
  std::vector<int> sorted(failed.begin(), failed.end());
  std::sort(sorted.begin(), sorted.end());
  const RankState& r = ranks[sorted[0]];  // the lowest rank's error has the most detail
  const std::string who =
      failed.size() == 1 ? fmt::format("rank {} {}", failed[0], on(r.hello)) : name_ranks(sorted);
  std::string out = fmt::format("{}: {}\n  It happened in {}", who, r.error, place_of(r.beat));
  for (size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i].phase == Phase::kFailed && first_line(ranks[i].error) != first_line(r.error))
      return out + fmt::format(". Rank {} then reported: {}", i, ranks[i].error);
  return out;
}

}  // namespace

std::string_view first_line(const std::string& error) {
  return std::string_view(error).substr(0, error.find('\n'));
}

std::string name_ranks(std::span<const int> ranks) {
  if (ranks.size() == 1) return fmt::format("rank {}", ranks[0]);
  std::vector<std::string> parts;
  // Runs of three or more consecutive numbers are written as a range.
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    if (end - i > 2) {
      parts.push_back(fmt::format("{}-{}", ranks[i], ranks[end - 1]));
    } else {
      for (size_t k = i; k < end; ++k) parts.push_back(std::to_string(ranks[k]));
    }
    i = end;
  }
  if (parts.size() == 1) return fmt::format("ranks {}", parts[0]);
  const std::string last = parts.back();
  parts.pop_back();
  return fmt::format("ranks {} and {}", fmt::join(parts, ", "), last);
}

std::string report_failure(FailureKind kind, std::span<const int> failed,
                           std::span<const RankState> ranks, double clock_s) {
  CHECK(!failed.empty(), "a failure without a rank");
  const RankState& r = ranks[failed[0]];
  if (kind == FailureKind::kNeverCame)
    return fmt::format(
        "{} of {} did not report within {:.0f} s of the start. Check the lines above, that the "
        "program is at the same path on every host, and that the ports between the hosts are open",
        name_ranks(failed), ranks.size(), clock_s);
  std::string out;
  if (kind == FailureKind::kSilent) out = silent(failed, ranks, clock_s);
  if (kind == FailureKind::kError) out = error(failed, ranks);
  if (kind == FailureKind::kDied) out = died(failed[0], r);
  out += fmt::format(".{}", others(failed, ranks, clock_s));
  if (kind == FailureKind::kDied && !r.hello.host.empty()) out += unreported(ranks);
  if (kind != FailureKind::kError) out += memory_of(r) + last_words(r);
  return out;
}

}  // namespace tessera::launch
