// The human-readable summary of a program: tables of segments and buffers, calls, memory.
// Consecutive calls of one segment whose layer and micro-batch change by constant steps of at most
// one share a line, so a pipeline of thousands of calls fits on a page.
#include "ir/summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "ir/names.h"
#include "ir/rule.h"

namespace tessera {
namespace {

std::string bytes_text(int64_t bytes) {
  const auto b = static_cast<double>(bytes);
  if (b >= 0x1p30) return fmt::format("{:.2f} GiB", b / 0x1p30);
  if (b >= 0x1p20) return fmt::format("{:.1f} MiB", b / 0x1p20);
  if (b >= 0x1p10) return fmt::format("{:.1f} KiB", b / 0x1p10);
  return fmt::format("{} B", bytes);
}

std::string flops_text(double flops) {
  if (flops == 0) return "-";
  if (flops >= 1e12) return fmt::format("{:.2f} TFLOP", flops / 1e12);
  if (flops >= 1e9) return fmt::format("{:.2f} GFLOP", flops / 1e9);
  return fmt::format("{:.2f} MFLOP", flops / 1e6);
}

// Returns the count of each op in the order of first use: "norm 2, matmul 4".
std::string ops_text(const Segment& s) {
  std::vector<std::pair<std::string_view, int>> counts;
  for (const Op& op : s.ops) {
    const std::string_view name = name_of(op.kind());
    const auto same = [&](const auto& c) { return c.first == name; };
    const auto at = std::find_if(counts.begin(), counts.end(), same);
    if (at == counts.end())
      counts.emplace_back(name, 1);
    else
      ++at->second;
  }
  std::string text;
  for (const auto& [name, n] : counts) {
    text += fmt::format("{}{}", text.empty() ? "" : ", ", name);
    if (n > 1) text += fmt::format(" {}", n);
  }
  return text;
}

// Per segment: the number of calls, operations and bytes of one call, and scratch; then the totals
// over all calls.
std::string segments_text(const Program& p) {
  std::map<SegmentId, int> calls;
  for (const Call& c : p.schedule) ++calls[c.segment];
  std::string text = fmt::format("{:<28}{:>6} {:>14} {:>11} {:>11}  ops\n",
                                 "segments (of one call)", "calls", "compute", "moves", "scratch");
  double total_flops = 0, total_bytes = 0;
  const ValueVector values = local_values(p.values);
  for (const SegmentId s : p.segments.ids()) {
    double flops = 0, bytes = 0;
    for (const Op& op : p.segments[s].ops) {
      const Cost one = cost_of(op, values);
      flops += one.flops.hardware;
      bytes += one.bytes;
    }
    const int n = calls[s];
    total_flops += n * flops;
    total_bytes += n * bytes;
    text += fmt::format("  {:<26}{:>6} {:>14} {:>11} {:>11}  {}\n", p.segments[s].name(), n,
                        flops_text(flops), bytes_text(static_cast<int64_t>(bytes)),
                        bytes_text(p.segments[s].scratch_bytes), ops_text(p.segments[s]));
  }
  return text + fmt::format("  {:<26}{:>6} {:>14} {:>11}\n", "the whole program", p.schedule.size(),
                            flops_text(total_flops), bytes_text(static_cast<int64_t>(total_bytes)));
}

std::string buffers_text(const Program& p) {
  std::map<BufferKindId, int64_t> count;
  for (const Buffer& f : p.buffers) ++count[f.kind];
  std::string text =
      fmt::format("{:<28}{:>6} {:>12} {:>12}\n", "buffers", "lives", "each", "together");
  for (const auto& [kind, n] : count) {
    const BufferKind& k = p.kind(kind);
    text += fmt::format("  {:<26}{:>6} {:>12} {:>12}{}{}\n", k.name, n, bytes_text(k.bytes),
                        bytes_text(n * k.bytes),
                        k.state  ? "  state"
                        : k.host ? "  host"
                                 : "",
                        k.state && k.host ? ", host" : "");
  }
  return text;
}

// Consecutive calls of one segment, whose layers and micro-batches change by at most one.
struct Group {
  CallId first, last;
};

CallId after(CallId c) { return CallId(c.number() + 1); }
CallId before(CallId c) { return CallId(c.number() - 1); }

int64_t step(int64_t a, int64_t b) { return b - a; }

// The first two calls of a group set its step; every later call must repeat it.
bool continues(const Program& p, const Group& g, CallId next) {
  const Call &last = p.call(g.last), &call = p.call(next);
  const int64_t layer = step(last.layer, call.layer), mb = step(last.microbatch, call.microbatch);
  if (call.segment != last.segment || std::abs(layer) > 1 || std::abs(mb) > 1) return false;
  if (g.first == g.last) return true;
  const Call& earlier = p.call(before(g.last));
  return layer == step(earlier.layer, last.layer) &&
         mb == step(earlier.microbatch, last.microbatch);
}

std::string range_text(const char* name, int64_t from, int64_t to) {
  if (from == kNone) return "";
  if (from == to) return fmt::format(" {}={}", name, from);
  return fmt::format(" {}={}…{}", name, from, to);
}

std::string group_text(const Program& p, const Group& g) {
  const Call &first = p.call(g.first), &last = p.call(g.last);
  const Segment& s = p.segment(first);
  const std::string numbers =
      g.first == g.last ? fmt::format("#{}", g.first) : fmt::format("#{}-#{}", g.first, g.last);
  std::string text = fmt::format("  {:<12} {}{}{}", numbers, s.name(),
                                 range_text("layer", first.layer, last.layer),
                                 range_text("mb", first.microbatch, last.microbatch));
  if (s.queue != Queue::kCompute) text += fmt::format(" queue={}", name_of(s.queue));
  for (size_t i = 0; i < first.after.size(); ++i)
    text += fmt::format("{}#{}", i == 0 ? "  after " : ", ", first.after[i]);
  return text + "\n";
}

std::string calls_text(const Program& p) {
  std::string text = "calls\n";
  for (CallId c(0); p.schedule.contains(c);) {
    Group g{c, c};
    while (p.schedule.contains(after(g.last)) && continues(p, g, after(g.last)))
      g.last = after(g.last);
    text += group_text(p, g);
    c = after(g.last);
  }
  return text;
}

std::string memory_text(const Program& p) {
  int64_t scratch = 0;
  for (const Queue q : Enumerators<Queue>()) scratch += scratch_bytes(p, q);
  const int64_t transient = p.bytes - p.state_bytes;
  const std::string host =
      p.host_bytes == 0 ? "" : fmt::format(" · of the host {}", bytes_text(p.host_bytes));
  return fmt::format(
      "memory\n  state {} · transient {}, up to {} of it scratch · arena {}{}\n"
      "  largest live set {}\n",
      bytes_text(p.state_bytes), bytes_text(transient), bytes_text(scratch), bytes_text(p.bytes),
      host, bytes_text(p.live_bytes));
}

}  // namespace

std::string summary(const Program& p) {
  return fmt::format("program {}: {} calls of {} segments on {} buffers\n", p.name,
                     p.schedule.size(), p.segments.size(), p.buffers.size()) +
         segments_text(p) + buffers_text(p) + calls_text(p) + memory_text(p);
}

}  // namespace tessera
