// The failure detector: a state machine per rank (awaited, alive, then failed, died or left) on a
// clock that counts only the time in which the monitor itself ran.
//
// The first sign of a failure is recorded, and the verdict follows after a settling time. The first
// sign matters because the others are often its consequences: ranks that lose their peer fail in
// MPI within milliseconds.
#include "launch/watch.h"

#include <algorithm>

#include "base/error.h"
#include "launch/agreement.h"

namespace tessera::launch {
namespace {

// Seconds between two looks. If more time has passed, the monitor itself was suspended.
constexpr double kUsualGap = 1;
// Seconds. Ranks that became silent this shortly after the first one failed together with it.
constexpr double kTogether = 1.5;

using Life = RankState::Life;

}  // namespace

Watch::Watch(WatchOptions options, double now_s)
    : options_(options), last_s_(now_s), ranks_(options_.ranks) {}

void Watch::advance(double now_s) {
  // At most one usual gap is added, so that after a suspension no rank times out before its beats,
  // which wait in the socket, have been read.
  clock_s_ += std::clamp(now_s - last_s_, 0.0, kUsualGap);
  last_s_ = now_s;
}

void Watch::sign(Loss loss, int rank) {
  // Only the first sign counts as the cause: one failed rank soon makes the others fail, too.
  if (!first_) first_ = Sign{loss, rank, clock_s_};
}

void Watch::heard(double now_s, int rank, const Message& message) {
  if (verdict_) return;
  advance(now_s);
  if (rank < 0 || rank >= options_.ranks) {
    disagreement_ = fmt::format(
        "a process on {} reports that it is rank {}, but {} ranks were started: the launcher and "
        "MPI disagree about the number of ranks",
        message.host, rank, options_.ranks);
    return sign(Loss::kDisagree, 0);
  }
  RankState& r = ranks_[rank];
  r.heard_s = clock_s_;
  switch (message.kind) {
    case MessageKind::kHello:
      if (r.life != Life::kAwaited || message.ranks != options_.ranks) {
        disagreement_ = fmt::format(
            "rank {} on {} sees {} ranks, but {} were started{}: the launcher and MPI disagree "
            "about the number of ranks (under SLURM: use --mpi pmix or pmi2, whichever Open MPI "
            "was built for)",
            rank, message.host, message.ranks, options_.ranks,
            r.life == Life::kAwaited ? "" : ", and another process reports the same rank");
        sign(Loss::kDisagree, rank);
      }
      r.life = Life::kAlive;
      r.hello = message;
      // Relative to the monitor's steady clock, so that values of different ranks can be compared.
      // They
      // differ by the latency even if the clocks agree.
      r.hello.clock_s -= last_s_;
      break;
    case MessageKind::kFacts:
      r.config = message.text;
      break;
    case MessageKind::kBeat:
      r.beat = message;
      break;
    case MessageKind::kFail:
      r.life = Life::kFailed;
      r.error = message.text;
      r.code = message.code;
      sign(Loss::kError, rank);
      break;
    case MessageKind::kBye:
      r.life = Life::kLeft;
      break;
    default:
      break;
  }
}

void Watch::closed(double now_s, int rank) {
  if (verdict_) return;
  advance(now_s);
  if (rank < 0 || rank >= options_.ranks) return;
  RankState& r = ranks_[rank];
  // A connection that closes after fail or bye is expected.
  if (r.life != Life::kAlive) return;
  r.life = Life::kDied;
  r.died_s = clock_s_;
  sign(Loss::kDied, rank);
}

void Watch::printed(int rank, const std::string& line) {
  if (rank < 0 || rank >= options_.ranks || line.empty()) return;
  ranks_[rank].last_line = line;
}

void Watch::ended_by(int rank, const std::string& how) {
  if (rank < 0 || rank >= options_.ranks) return;
  ranks_[rank].ending = how;
  if (verdict_) blame_unreported();
}

// Corrects the verdict if a rank died before its hello. It had no connection that could close, so
// the first sign was the end of another rank, which the launcher ended as a consequence.
void Watch::blame_unreported() {
  if (verdict_->loss != Loss::kDied) return;
  if (!ranks_[verdict_->ranks[0]].ending.empty()) return;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i].life != Life::kAwaited || ranks_[i].ending.empty()) continue;
    verdict_->ranks = {static_cast<int>(i)};
    return;
  }
}

void Watch::starter_ended(double now_s, const std::string& starter, int code,
                          const std::string& words) {
  if (starter_ended_ || verdict_) return;
  advance(now_s);
  starter_ended_ = true;
  if (code == 0 && all_left()) return;
  starter_ =
      fmt::format("{} ended with code {}{}{}", starter, code, words.empty() ? "" : ":\n", words);
  // No rank is blamed yet: decide() adds those that never reported.
  sign(Loss::kEnded, 0);
}

void Watch::tick(double now_s) {
  if (verdict_) return;
  advance(now_s);
  if (!compared_) compare_all();
  // Silence is examined only without another sign: a rank that died is silent as well.
  if (!first_) look_for_silence();
  if (first_ && clock_s_ - first_->at_s >= options_.settle_s) decide();
}

void Watch::look_for_silence() {
  int longest = -1;
  for (int i = 0; i < options_.ranks; ++i) {
    const RankState& r = ranks_[i];
    if (r.life == Life::kAwaited && clock_s_ > options_.start_s) return sign(Loss::kNeverCame, i);
    if (r.life != Life::kAlive || clock_s_ - r.heard_s < options_.silence_s) continue;
    // The rank that has been silent for the longest time is the first one; others may be waiting
    // for it.
    if (longest < 0 || r.heard_s < ranks_[longest].heard_s) longest = i;
  }
  if (longest >= 0) sign(Loss::kSilent, longest);
}

// Compares all ranks once, when each has reported what it runs.
void Watch::compare_all() {
  std::vector<RankFacts> facts;
  bool versions_agree = true;
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const RankState& r = ranks_[i];
    if (r.life == Life::kAwaited) return;
    versions_agree = versions_agree && r.hello.version == ranks_[0].hello.version;
    facts.push_back(
        {static_cast<int>(i), r.hello.host, r.hello.version, r.config, r.hello.clock_s});
  }
  // Ranks of another version may have another configuration format, so a difference of versions is
  // reported without waiting for their configurations.
  const auto knows = [](const RankFacts& f) { return !f.config.empty(); };
  if (versions_agree && !std::all_of(facts.begin(), facts.end(), knows)) return;
  compared_ = true;
  const Agreement agreement = compare(facts);
  warnings_.insert(warnings_.end(), agreement.warnings.begin(), agreement.warnings.end());
  if (agreement.error.empty()) return;
  disagreement_ = agreement.error;
  // The sign is dated back, so that the verdict follows at once: a disagreement needs no settling.
  first_ = Sign{Loss::kDisagree, agreement.rank, clock_s_ - options_.settle_s};
}

bool Watch::all_left() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const RankState& r) { return r.life == Life::kLeft; });
}

bool Watch::none_came() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const RankState& r) { return r.life == Life::kAwaited; });
}

int64_t Watch::step() const {
  int64_t step = 0;
  for (const RankState& r : ranks_) step = std::max(step, r.beat.step);
  return step;
}

std::vector<std::string> Watch::take_warnings() { return std::exchange(warnings_, {}); }

std::vector<std::string> Watch::hosts() const {
  std::vector<std::string> out;
  for (const RankState& r : ranks_) out.push_back(r.hello.host);
  return out;
}

// Returns true if the same thing happened to this rank as to the first one.
bool Watch::lost_with(const RankState& r, const RankState& first) const {
  switch (first_->loss) {
    case Loss::kSilent:
      // Half of the timeout: the ranks of a failed host stop at almost the same time, but this is
      // evaluated as soon as the first one exceeds the timeout.
      return r.life == Life::kAlive && r.heard_s - first.heard_s < kTogether &&
             clock_s_ - r.heard_s > options_.silence_s / 2;
    case Loss::kNeverCame:
    case Loss::kEnded:
      return r.life == Life::kAwaited;
    case Loss::kError:
      return r.life == Life::kFailed && first_line(r.error) == first_line(first.error);
    default:
      return false;
  }
}

void Watch::decide() {
  Verdict v{first_->loss, {}, step()};
  if (v.loss != Loss::kEnded) v.ranks.push_back(first_->rank);
  const RankState& first = ranks_[first_->rank];
  for (int i = 0; i < options_.ranks; ++i) {
    if (v.loss != Loss::kEnded && i == first_->rank) continue;
    if (lost_with(ranks_[i], first)) v.ranks.push_back(i);
  }
  if (v.loss == Loss::kError && first.code == kNumericExitCode) v.code = kNumericExitCode;
  verdict_ = std::move(v);
  blame_unreported();
}

std::string Watch::report() const {
  CHECK(verdict_.has_value(), "a report without a verdict");
  if (verdict_->loss == Loss::kDisagree) return disagreement_;
  if (verdict_->loss != Loss::kEnded)
    return report_loss(verdict_->loss, verdict_->ranks, ranks_, clock_s_);
  const bool none_came = verdict_->ranks.size() == ranks_.size();
  std::string out = starter_;
  if (none_came) out += "\n  before any rank had reported";
  if (!none_came && !verdict_->ranks.empty())
    out += fmt::format("\n  before {} had reported", name_ranks(verdict_->ranks));
  for (const RankState& r : ranks_)
    if (!r.last_line.empty())
      return out + fmt::format(". The last line of a rank: {}", r.last_line);
  return out;
}

}  // namespace tessera::launch
