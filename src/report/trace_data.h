// The traced step of a run, as a report shows it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::report {

// Activities of a rank that a timeline distinguishes.
enum class Activity : uint8_t {
  kForward,
  kHead,  // forward, loss and backward of the last block
  kBackward,
  kRecompute,
  kUpdate,
  kTransfer,  // between ranks, or to and from the host's memory
  kOther,
};
constexpr size_t count_of(Activity) { return static_cast<size_t>(Activity::kOther) + 1; }
std::string_view name_of(Activity activity);

struct TraceBar {
  Activity activity = Activity::kOther;
  double start_s = 0, duration_s = 0;
};

struct TraceRow {
  std::string queue;
  std::vector<TraceBar> bars;  // in the order of start; neighbors of one activity are merged
};

struct TraceRank {
  int64_t rank = 0;
  std::vector<TraceRow> rows;
};

// The name of the time in which a rank runs no op: it waits for other ranks, or for the host.
constexpr std::string_view kWaiting = "waiting";

struct OpShare {
  std::string op;
  double seconds = 0;  // mean over the ranks, on the compute queue
  double limit_s = 0;  // the part of it that the machine's matrix rate accounts for
  int64_t calls = 0;   // sum over all ranks
};

struct Trace {
  std::string title;  // "step 8 of slow"
  double duration_s = 0;
  std::vector<TraceRank> ranks;
  std::vector<OpShare> ops;  // largest first, then kWaiting
};

}  // namespace tessera::report
