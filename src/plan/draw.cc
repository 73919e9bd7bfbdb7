// Renders the timeline of a simulated step as an SVG: one row per stage, with a bar per call
// (computation in the upper half, thin bars for the other queues below) and the bytes in use over
// time. Adjacent bars of one
// color and micro-batch are merged, and steps narrower than a third of a pixel are skipped, so the
// size of the file stays moderate for large programs.
#include "plan/explain.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/count.h"
#include "base/real.h"

namespace tessera::plan {
namespace {

constexpr double kWidth = 1200, kLeft = 70, kRow = 26, kBar = 10, kMemory = 12;

constexpr const char *kForward = "#4c8bf5", *kBackward = "#34a853", *kWeightBackward = "#a5d6a7",
                     *kHead = "#1b7f8f", *kRecompute = "#e0a100", *kMessage = "#f0a698",
                     *kUpdate = "#8e44ad", *kCollective = "#e0523f", *kMemoryColor = "#d2e3fc";

const char* color_of(Phase phase) {
  switch (phase) {
    case Phase::kForward:
    case Phase::kForwardNoSave:
      return kForward;
    case Phase::kBackward:
      return kBackward;
    case Phase::kWeightBackward:
      return kWeightBackward;
    case Phase::kJoint:
      return kHead;
    case Phase::kRecompute:
      return kRecompute;
    case Phase::kSendForward:
    case Phase::kReceiveForward:
    case Phase::kSendBackward:
    case Phase::kReceiveBackward:
      return kMessage;
    case Phase::kUpdate:
    case Phase::kSquares:
    case Phase::kClip:
    case Phase::kMeasure:
    case Phase::kFactor:
    case Phase::kDirection:
    case Phase::kOrthogonalize:
      return kUpdate;
    default:
      return kCollective;
  }
}

struct Bar {
  std::string name;
  const char* color;
  int64_t microbatch, from, to;
  bool beside;  // on a queue other than the compute queue
};

std::vector<Bar> bars_of(const Program& p, const IdVector<CallId, CallTime>& times) {
  std::vector<Bar> bars;
  for (const CallId c : p.schedule.ids()) {
    const Call& call = p.schedule[c];
    const Segment& s = p.segment(call);
    const CallTime& t = times[c];
    const bool beside = s.queue != Queue::kCompute;
    if (!bars.empty()) {
      Bar& last = bars.back();
      if (last.color == color_of(s.phase) && last.microbatch == call.microbatch &&
          last.beside == beside && last.to == t.start_ns) {
        last.to = t.finish_ns;
        continue;
      }
    }
    bars.push_back({s.name(), color_of(s.phase), call.microbatch, t.start_ns, t.finish_ns, beside});
  }
  return bars;
}

// Returns the bytes in use after each change as (time, bytes), in the order of time. A buffer adds
// its bytes at the start of its first call and removes them at the end of its last one.
std::vector<std::pair<int64_t, int64_t>> live_of(const Program& p,
                                                 const IdVector<CallId, CallTime>& times) {
  std::vector<std::pair<int64_t, int64_t>> changes;
  IdVector<BufferId, std::pair<int64_t, int64_t>> life(p.buffers.size(), {INT64_MAX, 0});
  for (const CallId c : p.schedule.ids())
    for (const BufferId f : p.schedule[c].buffers) {
      auto& [first, last] = life[f];
      first = std::min(first, times[c].start_ns);
      last = std::max(last, times[c].finish_ns);
    }
  for (const BufferId f : p.buffers.ids()) {
    if (p.buffers[f].state || life[f].first == INT64_MAX) continue;
    const int64_t bytes = p.bytes_of(f);
    changes.emplace_back(life[f].first, bytes);
    changes.emplace_back(life[f].second, -bytes);
  }
  std::sort(changes.begin(), changes.end());
  int64_t live = p.state_bytes;
  for (auto& [time, bytes] : changes) bytes = live += bytes;
  return changes;
}

// Returns the SVG path of the bytes in use, a step function of time: H to the time of a change, V
// to the new height. The top of each row is the largest arena of all stages, so rows can be
// compared.
std::string memory_path(const Program& p, const IdVector<CallId, CallTime>& times, double top,
                        double scale, int64_t most) {
  const auto y = [&](int64_t bytes) { return top + kMemory * (1 - ratio(bytes, most)); };
  std::string d = fmt::format("M{:.1f} {:.1f} V{:.1f}", kLeft, top + kMemory, y(p.state_bytes));
  double drawn = kLeft;
  for (const auto& [time, bytes] : live_of(p, times)) {
    const double x = kLeft + real_product(time, scale);
    if (x - drawn < 0.3) continue;  // narrower than a third of a pixel
    d += fmt::format("H{:.1f}V{:.1f}", x, y(bytes));
    drawn = x;
  }
  return d + fmt::format("H{:.1f}V{:.1f}Z", kLeft + kWidth, top + kMemory);
}

}  // namespace

std::vector<std::pair<std::string, std::string>> colors_of_draw() {
  return {{"forward", kForward},
          {"head: forward, loss and backward", kHead},
          {"backward", kBackward},
          {"backward of weights", kWeightBackward},
          {"recomputation", kRecompute},
          {"update", kUpdate},
          {"messages between stages", kMessage},
          {"collectives and copies", kCollective},
          {"bytes in use of the arena", kMemoryColor}};
}

//   stage s   ▐████▌▐██▌ ▐████▌     computation, colored by phase
//             ▂▂▂▂   ▂▂▂            other queues
//             ▁▃▅▇▇▅▃▁              bytes in use
std::string draw(const std::vector<Program>& stages, const Timeline& timeline) {
  const double scale = ratio(kWidth, std::max<int64_t>(timeline.step_ns, 1));
  int64_t most = 1;
  for (const Program& p : stages) most = std::max(most, p.bytes);
  const double height = real_product(kRow, stages.size()) + 30;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" "
      "font-family=\"sans-serif\" font-size=\"10\">\n",
      kLeft + kWidth + 10, height);
  for (size_t s = 0; s < stages.size(); ++s) {
    const double top = 5 + real_product(kRow, s);
    out += fmt::format("<text x=\"2\" y=\"{:.1f}\">stage {}</text>\n", top + kBar, s);
    for (const Bar& b : bars_of(stages[s], timeline.calls[s])) {
      const double x = kLeft + real_product(b.from, scale);
      const double width = real_product(b.to - b.from, scale);
      if (width < 0.05) continue;
      out += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\">"
          "<title>{}{} {:.3f} ms</title></rect>\n",
          x, b.beside ? top + kBar - 2 : top, width, b.beside ? 2.0 : kBar - 2, b.color, b.name,
          b.microbatch == kNone ? "" : fmt::format(" mb={}", b.microbatch),
          real_product(b.to - b.from, 1e-6));
    }
    out +=
        fmt::format("<path d=\"{}\" fill=\"{}\"><title>stage {}: arena {:.2f} GiB</title></path>\n",
                    memory_path(stages[s], timeline.calls[s], top + kBar, scale, most),
                    kMemoryColor, s, gib(stages[s].bytes));
  }
  return out + fmt::format("<text x=\"{}\" y=\"{:.1f}\">{:.3f} s</text>\n</svg>\n",
                           kLeft + kWidth - 40, height - 5, seconds_of(timeline.step_ns));
}

}  // namespace tessera::plan
