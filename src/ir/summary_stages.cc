// The part of a program summary that lists the stages of a pipeline.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/real.h"
#include "ir/summary.h"

namespace tessera {
namespace {

// Formats 0,1,2,5 as "0-2, 5".
std::string ranges(const std::set<int64_t>& numbers) {
  std::string out;
  for (auto i = numbers.begin(); i != numbers.end();) {
    const int64_t first = *i;
    int64_t last = first;
    while (++i != numbers.end() && *i == last + 1) last = *i;
    out += fmt::format("{}{}", out.empty() ? "" : ", ", first);
    if (last > first) out += fmt::format("-{}", last);
  }
  return out.empty() ? "-" : out;
}

std::set<int64_t> layers_of(const Program& p) {
  std::set<int64_t> layers;
  for (const Buffer& f : p.buffers)
    if (f.state && f.layer != kNone) layers.insert(f.layer);
  return layers;
}

std::set<int64_t> ranks_of(const Program& p) {
  std::set<int64_t> ranks;
  for (int64_t r = 0; r < p.mesh.ranks(); ++r)
    if (coordinates_of(p.mesh, r)[AxisKind::kPipeline] == p.stage) ranks.insert(r);
  return ranks;
}

int64_t sent_bytes(const Program& p) {
  int64_t bytes = 0;
  for (const Call& c : p.schedule)
    if (c.comm.kind == CommKind::kSend) bytes += c.comm.bytes;
  return bytes;
}

double mib(int64_t bytes) { return ratio(bytes, 1 << 20); }

}  // namespace

// Writes one row per stage, then the segments that only some of the stages have.
std::string summary(const std::vector<Program>& stages) {
  std::string out =
      fmt::format("{:>5}  {:<14}{:<16}{:>7}{:>8}{:>12}{:>12}{:>12}\n", "stage", "ranks", "layers",
                  "calls", "buffers", "state MiB", "arena MiB", "sends MiB");
  std::map<std::string, std::set<int64_t>> segments;
  for (const Program& p : stages) {
    out += fmt::format("{:>5}  {:<14}{:<16}{:>7}{:>8}{:>12.1f}{:>12.1f}{:>12.1f}\n", p.stage,
                       ranges(ranks_of(p)), ranges(layers_of(p)), p.schedule.size(),
                       p.buffers.size(), mib(p.state_bytes), mib(p.bytes), mib(sent_bytes(p)));
    for (const Segment& s : p.segments) segments[s.name()].insert(p.stage);
  }
  for (const auto& [name, where] : segments)
    if (where.size() < stages.size())
      out += fmt::format("  only on stages {}: {}\n", ranges(where), name);
  return out;
}

}  // namespace tessera
