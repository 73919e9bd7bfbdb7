// One step as a picture: the JSON format of Chrome's trace viewer, which chrome://tracing and
// ui.perfetto.dev open. One row a queue, one bar an op.
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
  int64_t bytes = 0;          // read and written
  double flops = 0;           // of products
  double share_of_limit = 0;  // time at the machine's rates over the time taken; 0: not known
};

// The rows of one process, a rank: records of Chrome's format, joined by commas. Times in µs from
// `origin_s`; arguments of each bar: origin, bytes, flops, gb_per_s, gflop_per_s, share_of_limit.
struct TraceProcess {
  std::string title;  // "step 10 of pythia-70m", "rank 3 of 8, step 10 of …"
  int64_t number = 0;
  double origin_s = 0;
};
std::string chrome_records(std::span<const TraceEvent> events, const TraceProcess& process);

// The document around the records of all processes: {"displayTimeUnit":"ms","traceEvents":[…]}.
std::string chrome_trace(std::span<const std::string> records);
constexpr std::string_view kTraceBegin = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";

}  // namespace tessera::train
