// Decides whether a run is well: events in, a verdict out. Pure: times are handed in, nothing is
// read or sent, so every kind of loss is a test.
//
// A rank is lost when its connection ends without a word, when it says an error, or when it is
// silent for `silence_s`. Silence is counted in time in which the watcher itself ran: while it was
// kept from running (a laptop that slept, a machine that swaps) no rank grows older by more than
// the usual gap between two looks. How long an op takes decides nothing.
//
// The first sign names the rank. The verdict comes `settle_s` later, so that the same error on
// other ranks is part of it; then nothing that ranks say counts any more. Its words are put
// together when all have ended, because only then it is known how the process ended.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launch/message.h"

namespace tessera::launch {

struct WatchOptions {
  int ranks = 1;
  double silence_s = 4;   // without a beat
  double start_s = 120;   // until every rank has said hello
  double settle_s = 0.5;  // from the first sign to the verdict
};

enum class Loss : uint8_t { kError, kDied, kSilent, kNeverCame, kDisagree, kEnded };

struct Verdict {
  Loss loss = Loss::kError;
  std::vector<int> ranks;  // that were lost; empty: cannot be said
  int64_t step = 0;        // that was reached
  int code = 1;            // of `launch`: kNumericExitCode if the first rank failed with that
};

struct RankState {
  enum class Life : uint8_t { kAwaited, kAlive, kFailed, kDied, kLeft };
  Life life = Life::kAwaited;
  int64_t code = 1;  // with which it failed
  Message hello, beat;
  double heard_s = 0, died_s = 0;  // the last word, and the end, on the watch's clock
  std::string config, error, last_line, ending;
};

class Watch {
 public:
  Watch(WatchOptions options, double now_s);

  void heard(double now_s, int rank, const Message& message);
  void closed(double now_s, int rank);
  // What the rank printed to standard error, line by line; the last one is quoted.
  void printed(int rank, const std::string& line);
  // How the rank's process ended, as who started it says: "killed by signal 9".
  void ended_by(int rank, const std::string& how);
  // mpirun or srun has ended; `words`: what it had to say.
  void starter_ended(double now_s, const std::string& starter, int code, const std::string& words);
  // Call a few times a second, after the events.
  void tick(double now_s);

  const std::optional<Verdict>& verdict() const { return verdict_; }
  std::string report() const;              // the paragraph for people; REQUIRES a verdict
  std::vector<std::string> hosts() const;  // of each rank; empty where it never came
  bool all_left() const;                   // every rank said good-bye
  bool none_came() const;                  // no rank ever said anything
  int64_t step() const;                    // the latest that any rank has begun
  // Things to tell that are no loss (clocks apart), each once.
  std::vector<std::string> take_warnings();

 private:
  void advance(double now_s);
  void sign(Loss loss, int rank);
  void look_for_silence();
  void compare_all();
  bool lost_with(const RankState& r, const RankState& first) const;
  void decide();
  void blame_unreported();

  WatchOptions options_;
  double last_s_ = 0, clock_s_ = 0;  // clock_s_: time in which the watcher ran
  std::vector<RankState> ranks_;
  struct Sign {
    Loss loss;
    int rank;
    double at_s;
  };
  std::optional<Sign> first_;
  std::string disagreement_, starter_;
  bool compared_ = false, starter_ended_ = false;
  std::vector<std::string> warnings_;
  std::optional<Verdict> verdict_;
};

// ---- The text of a verdict.

// "rank 3", "ranks 1, 3 and 7", "ranks 0-6"; `ranks` ascends.
std::string name_ranks(std::span<const int> ranks);

// Returns the part of an error that is equal on all ranks; the rest is detail of one rank.
std::string_view first_line(const std::string& error);

// Describes the ranks that failed and how, their activity, and the activity of the others.
// `clock_s` is the watch's, `lost` is not empty and its first rank the one to describe.
std::string report_loss(Loss loss, std::span<const int> lost, std::span<const RankState> ranks,
                        double clock_s);

}  // namespace tessera::launch
