// The failure detector of a run: it receives events and decides whether a rank has failed. Pure:
// the caller passes the time, and nothing is read or sent, so that tests can cover all kinds of
// failure.
//
// A rank has failed if its connection closes without a bye, if it reports an error, or if it is
// silent for `silence_s`. Timeouts are paused while the monitor itself is suspended (a laptop that
// sleeps, a machine that swaps): each gap between two calls counts as at most one second. The
// duration of an op has no influence.
//
// The first sign of a failure identifies the rank. The failure is decided `settle_s` later, so that
// it includes other ranks with the same error; later messages are ignored. The report is written
// after all processes have ended, because only then the exit status of the failed one is known.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/message.h"

namespace tessera::launch {

struct RankMonitorOptions {
  int ranks = 1;
  double silence_s = 4;   // heartbeat timeout
  double start_s = 120;   // timeout for the hello of every rank
  double settle_s = 0.5;  // time from the first sign to the report
};

enum class FailureKind : uint8_t { kError, kDied, kSilent, kNeverCame, kDisagree, kEnded };

struct Failure {
  FailureKind kind = FailureKind::kError;
  std::vector<int> ranks;  // the failed ranks; empty: unknown
  int64_t step = 0;        // the latest step that any rank reported
  int code = 1;            // exit code of `launch`: kNumericExitCode if the first rank's was
};

struct RankState {
  enum class Phase : uint8_t { kAwaited, kAlive, kFailed, kDied, kLeft };
  Phase phase = Phase::kAwaited;
  int64_t code = 1;  // exit code, if it reported an error
  HeartbeatMessage hello, beat;
  double heard_s = 0,
         died_s = 0;  // times of the last message and of the end, on RankMonitor's clock
  std::string config, error, last_line, ending;
};

class RankMonitor {
 public:
  RankMonitor(RankMonitorOptions options, double now_s);

  // The rank sent a message, or its connection closed.
  void heard(double now_s, int rank, const HeartbeatMessage& message);
  void closed(double now_s, int rank);
  // The rank printed a line to standard error. The report quotes the last one.
  void printed(int rank, const std::string& line);
  // The launcher reported how the rank's process ended, such as "signal 9, Killed".
  void ended_by(int rank, const std::string& how);
  // mpirun or srun has ended; `words` is its own output.
  void launcher_ended(double now_s, const std::string& launcher, int code,
                      const std::string& words);
  // Checks the timeouts and may find a failure. Call it several times per second, after the
  // events.
  void tick(double now_s);

  const std::optional<Failure>& failure() const { return failure_; }
  std::string report() const;              // describes the failure for the user; REQUIRES a failure
  std::vector<std::string> hosts() const;  // per rank; empty if the rank never connected
  bool all_left() const;                   // true if all ranks sent a bye
  bool none_came() const;                  // true if no rank ever connected
  int64_t step() const;                    // the latest step that any rank began
  std::span<const RankState> ranks() const { return ranks_; }
  double clock_s() const { return clock_s_; }  // time during which the monitor ran
  // Returns each warning once. Warnings are not failures (clocks that differ).
  std::vector<std::string> take_warnings();

 private:
  void advance(double now_s);
  void sign(FailureKind kind, int rank);
  void look_for_silence();
  void compare_all();
  bool failed_with(const RankState& r, const RankState& first) const;
  void decide();
  void blame_unreported();

  RankMonitorOptions options_;
  double last_s_ = 0, clock_s_ = 0;  // clock_s_: time during which the monitor ran
  std::vector<RankState> ranks_;
  struct Sign {
    FailureKind kind;
    int rank;
    double at_s;
  };
  std::optional<Sign> first_;
  std::string disagreement_, launcher_;
  bool compared_ = false, launcher_ended_ = false;
  std::vector<std::string> warnings_;
  std::optional<Failure> failure_;
};

// ---- The text about a failure.

// "rank 3", "ranks 1, 3 and 7", "ranks 0-6"; `ranks` ascends.
std::string name_ranks(std::span<const int> ranks);

// Returns the part of an error that is equal on all ranks; the rest is detail of one rank.
std::string_view first_line(const std::string& error);

// Describes how the ranks in `failed` failed, their activity, and the activity of the others.
// `failed` is not empty, and its first rank is described in detail. `clock_s` is the time on
// RankMonitor's clock.
std::string report_failure(FailureKind kind, std::span<const int> failed,
                           std::span<const RankState> ranks, double clock_s);

}  // namespace tessera::launch
