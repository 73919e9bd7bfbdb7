// The failure detector: a state machine per rank (awaited, alive, then failed, died or left) on a
// clock that counts only the time in which the monitor itself ran.
//
// The first sign of a failure is recorded, and the decision follows after a settling time. The
// first sign matters because the others are often its consequences: ranks that lose their peer fail
// in MPI within milliseconds.
#include "launch/rank_monitor.h"

#include <algorithm>

#include "base/error.h"
#include "launch/rank_consistency.h"

namespace tessera::launch {
namespace {

// Seconds between two looks. If more time has passed, the monitor itself was suspended.
constexpr double kUsualGap = 1;
// Seconds. Ranks that became silent this shortly after the first one failed together with it.
constexpr double kTogether = 1.5;

using Phase = RankState::Phase;

}  // namespace

RankMonitor::RankMonitor(RankMonitorOptions options, double now_s)
    : options_(options), last_s_(now_s), ranks_(options_.ranks) {}

void RankMonitor::advance(double now_s) {
  // At most one usual gap is added, so that after a suspension no rank times out before its beats,
  // which wait in the socket, have been read.
  clock_s_ += std::clamp(now_s - last_s_, 0.0, kUsualGap);
  last_s_ = now_s;
}

void RankMonitor::sign(FailureKind kind, int rank) {
  // Only the first sign counts as the cause: one failed rank soon makes the others fail, too.
  if (!first_) first_ = Sign{kind, rank, clock_s_};
}

void RankMonitor::heard(double now_s, int rank, const HeartbeatMessage& message) {
  if (failure_) return;
  advance(now_s);
  if (rank < 0 || rank >= options_.ranks) {
    disagreement_ = fmt::format(
        "a process on {} reports that it is rank {}, but {} ranks were started: the launcher and "
        "MPI disagree about the number of ranks",
        message.host, rank, options_.ranks);
    return sign(FailureKind::kDisagree, 0);
  }
  RankState& r = ranks_[rank];
  r.heard_s = clock_s_;
  switch (message.kind) {
    case MessageKind::kHello:
      if (r.phase != Phase::kAwaited || message.ranks != options_.ranks) {
        disagreement_ = fmt::format(
            "rank {} on {} sees {} ranks, but {} were started{}: the launcher and MPI disagree "
            "about the number of ranks (under SLURM: use --mpi pmix or pmi2, whichever Open MPI "
            "was built for)",
            rank, message.host, message.ranks, options_.ranks,
            r.phase == Phase::kAwaited ? "" : ", and another process reports the same rank");
        sign(FailureKind::kDisagree, rank);
      }
      r.phase = Phase::kAlive;
      r.hello = message;
      // Relative to the monitor's steady clock, so that values of different ranks can be compared.
      // They
      // differ by the latency even if the clocks agree.
      r.hello.clock_s -= last_s_;
      break;
    case MessageKind::kFacts:
      r.config = message.text;
      break;
    case MessageKind::kHeartbeat:
      r.beat = message;
      break;
    case MessageKind::kError:
      r.phase = Phase::kFailed;
      r.error = message.text;
      r.code = message.code;
      sign(FailureKind::kError, rank);
      break;
    case MessageKind::kBye:
      r.phase = Phase::kLeft;
      break;
    default:
      break;
  }
}

void RankMonitor::closed(double now_s, int rank) {
  if (failure_) return;
  advance(now_s);
  if (rank < 0 || rank >= options_.ranks) return;
  RankState& r = ranks_[rank];
  // A connection that closes after fail or bye is expected.
  if (r.phase != Phase::kAlive) return;
  r.phase = Phase::kDied;
  r.died_s = clock_s_;
  sign(FailureKind::kDied, rank);
}

void RankMonitor::printed(int rank, const std::string& line) {
  if (rank < 0 || rank >= options_.ranks || line.empty()) return;
  ranks_[rank].last_line = line;
}

void RankMonitor::ended_by(int rank, const std::string& how) {
  if (rank < 0 || rank >= options_.ranks) return;
  ranks_[rank].ending = how;
  if (failure_) blame_unreported();
}

// Corrects the decision if a rank died before its hello. It had no connection that could close, so
// the first sign was the end of another rank, which the launcher ended as a consequence.
void RankMonitor::blame_unreported() {
  if (failure_->kind != FailureKind::kDied) return;
  if (!ranks_[failure_->ranks[0]].ending.empty()) return;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].phase != Phase::kAwaited || ranks_[i].ending.empty()) continue;
    failure_->ranks = {static_cast<int>(i)};
    return;
  }
}

void RankMonitor::launcher_ended(double now_s, const std::string& launcher, int code,
                                 const std::string& words) {
  if (launcher_ended_ || failure_) return;
  advance(now_s);
  launcher_ended_ = true;
  if (code == 0 && all_left()) return;
  launcher_ =
      fmt::format("{} ended with code {}{}{}", launcher, code, words.empty() ? "" : ":\n", words);
  // No rank is blamed yet: decide() adds those that never reported.
  sign(FailureKind::kEnded, 0);
}

void RankMonitor::tick(double now_s) {
  if (failure_) return;
  advance(now_s);
  if (!compared_) compare_all();
  // Silence is examined only without another sign: a rank that died is silent as well.
  if (!first_) look_for_silence();
  if (first_ && clock_s_ - first_->at_s >= options_.settle_s) decide();
}

void RankMonitor::look_for_silence() {
  int longest = -1;
  for (int i = 0; i < options_.ranks; ++i) {
    const RankState& r = ranks_[i];
    if (r.phase == Phase::kAwaited && clock_s_ > options_.start_s)
      return sign(FailureKind::kNeverCame, i);
    if (r.phase != Phase::kAlive || clock_s_ - r.heard_s < options_.silence_s) continue;
    // The rank that has been silent for the longest time is the first one; others may be waiting
    // for it.
    if (longest < 0 || r.heard_s < ranks_[longest].heard_s) longest = i;
  }
  if (longest >= 0) sign(FailureKind::kSilent, longest);
}

// Compares all ranks once, when each has reported what it runs.
void RankMonitor::compare_all() {
  std::vector<RankFacts> facts;
  bool versions_agree = true;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const RankState& r = ranks_[i];
    if (r.phase == Phase::kAwaited) return;
    versions_agree = versions_agree && r.hello.version == ranks_[0].hello.version;
    facts.push_back(
        {static_cast<int>(i), r.hello.host, r.hello.version, r.config, r.hello.clock_s});
  }
  // Ranks of another version may have another configuration format, so a difference of versions is
  // reported without waiting for their configurations.
  const auto knows = [](const RankFacts& f) { return !f.config.empty(); };
  if (versions_agree && !std::all_of(facts.begin(), facts.end(), knows)) return;
  compared_ = true;
  const RankConsistency agreement = compare(facts);
  warnings_.insert(warnings_.end(), agreement.warnings.begin(), agreement.warnings.end());
  if (agreement.error.empty()) return;
  disagreement_ = agreement.error;
  // The sign is dated back, so that the decision follows at once: a disagreement needs no settling.
  first_ = Sign{FailureKind::kDisagree, agreement.rank, clock_s_ - options_.settle_s};
}

bool RankMonitor::all_left() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const RankState& r) { return r.phase == Phase::kLeft; });
}

bool RankMonitor::none_came() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const RankState& r) { return r.phase == Phase::kAwaited; });
}

int64_t RankMonitor::step() const {
  int64_t step = 0;
  for (const RankState& r : ranks_) step = std::max(step, r.beat.step);
  return step;
}

std::vector<std::string> RankMonitor::take_warnings() { return std::exchange(warnings_, {}); }

std::vector<std::string> RankMonitor::hosts() const {
  std::vector<std::string> out;
  for (const RankState& r : ranks_) out.push_back(r.hello.host);
  return out;
}

// Returns true if the same thing happened to this rank as to the first one.
bool RankMonitor::failed_with(const RankState& r, const RankState& first) const {
  switch (first_->kind) {
    case FailureKind::kSilent:
      // Half of the timeout: the ranks of a failed host stop at almost the same time, but this is
      // evaluated as soon as the first one exceeds the timeout.
      return r.phase == Phase::kAlive && r.heard_s - first.heard_s < kTogether &&
             clock_s_ - r.heard_s > options_.silence_s / 2;
    case FailureKind::kNeverCame:
    case FailureKind::kEnded:
      return r.phase == Phase::kAwaited;
    case FailureKind::kError:
      return r.phase == Phase::kFailed && first_line(r.error) == first_line(first.error);
    default:
      return false;
  }
}

void RankMonitor::decide() {
  Failure v{first_->kind, {}, step()};
  if (v.kind != FailureKind::kEnded) v.ranks.push_back(first_->rank);
  const RankState& first = ranks_[first_->rank];
  for (int i = 0; i < options_.ranks; ++i) {
    if (v.kind != FailureKind::kEnded && i == first_->rank) continue;
    if (failed_with(ranks_[i], first)) v.ranks.push_back(i);
  }
  if (v.kind == FailureKind::kError && first.code == kNumericExitCode) v.code = kNumericExitCode;
  failure_ = std::move(v);
  blame_unreported();
}

std::string RankMonitor::report() const {
  CHECK(failure_.has_value(), "a report without a failure");
  if (failure_->kind == FailureKind::kDisagree) return disagreement_;
  if (failure_->kind != FailureKind::kEnded)
    return report_failure(failure_->kind, failure_->ranks, ranks_, clock_s_);
  const bool none_came = failure_->ranks.size() == ranks_.size();
  std::string out = launcher_;
  if (none_came) out += "\n  before any rank had reported";
  if (!none_came && !failure_->ranks.empty())
    out += fmt::format("\n  before {} had reported", name_ranks(failure_->ranks));
  for (const RankState& r : ranks_)
    if (!r.last_line.empty())
      return out + fmt::format(". The last line of a rank: {}", r.last_line);
  return out;
}

}  // namespace tessera::launch
