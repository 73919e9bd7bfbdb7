// Writes a step in the JSON format of Chrome's trace viewer, which chrome://tracing and
// ui.perfetto.dev open. Each queue is a row and each op a bar.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace tessera::train {

struct TraceEvent {
  std::string op;      // "matmul"
  std::string origin;  // "layer 7, backward, attn.qkv"
  std::string queue;   // "compute", "data", …: the row
  double start_s = 0, duration_s = 0;
  int64_t bytes = 0;          // bytes read and written
  double flops = 0;           // FLOPs of GEMMs and attention
  double share_of_limit = 0;  // time at the matrix rate divided by the measured time; 0: unknown
};

// One rank, which is a process in the trace.
struct TraceProcess {
  std::string title;    // "step 10 of pythia-70m", "rank 3 of 8, step 10 of …"
  int64_t number = 0;   // the rank
  double origin_s = 0;  // time 0 of the trace, on the clock of the events
};
// Returns the records of one process, joined by commas. Times are in µs from `origin_s`. Each bar
// has the arguments origin, bytes, flops, gb_per_s, gflop_per_s and share_of_limit.
std::string chrome_records(std::span<const TraceEvent> events, const TraceProcess& process);

// Returns the document with the records of all processes:
// {"displayTimeUnit":"ms","traceEvents":[…]}.
std::string chrome_trace(std::span<const std::string> records);
constexpr std::string_view kTraceBegin = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";

}  // namespace tessera::train
