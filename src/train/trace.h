// One step as a picture: the JSON format of Chrome's trace viewer, which chrome://tracing and
// ui.perfetto.dev open. One row a queue, one bar an op.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tessera {

struct TraceEvent {
  std::string op;      // "matmul"
  std::string origin;  // "layer 7, backward, attn.qkv"
  std::string queue;   // "compute", "data", …: the row
  double start_s = 0, duration_s = 0;
  int64_t bytes = 0;          // read and written
  double flops = 0;           // of products
  double share_of_limit = 0;  // time at the machine's rates over the time taken; 0: not known
};

// {"displayTimeUnit":"ms","traceEvents":[…]}: times in µs from `start_s` of the earliest event;
// arguments of each bar: origin, bytes, flops, gb_per_s, gflop_per_s, share_of_limit. `title`
// names the process ("step 10 of pythia-70m").
std::string chrome_trace(std::span<const TraceEvent> events, const std::string& title);

}  // namespace tessera
