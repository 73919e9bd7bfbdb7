#include "compile/communicators.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/error.h"

namespace tessera {
namespace {

constexpr const char* kPipeline = "pipeline";
constexpr const char *kForward = "forward", *kBackward = "backward";

struct Way {
  bool forward = false, sends = false;
};

Way way_of(const Op& op, Queue queue) {
  const bool forward = queue == Queue::kSendForward || queue == Queue::kReceiveForward;
  CHECK(forward || queue == Queue::kSendBackward || queue == Queue::kReceiveBackward,
        "{} is in queue {}", op.origin, static_cast<int>(queue));
  return {forward, queue == Queue::kSendForward || queue == Queue::kSendBackward};
}

// The last stage's next is the first (interleaved schedules).
CommunicatorName pair_of(const Way& way, int64_t stage, int64_t stages) {
  const int64_t step = way.forward == way.sends ? 1 : stages - 1, other = (stage + step) % stages;
  return {fmt::format("stages:{},{}", std::min(stage, other), std::max(stage, other)),
          fmt::format("{} from {}", way.forward ? kForward : kBackward, way.sends ? stage : other)};
}

}  // namespace

bool is_message(const Op& op) { return op.kind == OpKind::kSend || op.kind == OpKind::kReceive; }
bool reduces(const Op& op) {
  return op.kind == OpKind::kAllReduce || op.kind == OpKind::kReduceScatter;
}
bool communicates(const Op& op) {
  return is_message(op) || reduces(op) || op.kind == OpKind::kAllGather;
}

CommunicatorName communicator_of(const Op& op, Queue queue, const Program& program,
                                 Messages messages) {
  if (!is_message(op)) return {op.attributes.text("over"), std::to_string(static_cast<int>(queue))};
  const Way way = way_of(op, queue);
  if (messages == Messages::kShared) return {kPipeline, way.forward ? kForward : kBackward};
  return pair_of(way, program.stage, program.mesh[AxisKind::kPipeline]);
}

std::vector<CommunicatorUse> communicators_of(const std::vector<const Program*>& programs,
                                              Messages messages) {
  std::map<CommunicatorName, bool> found;
  for (const Program* p : programs)
    for (const Segment& s : p->segments)
      for (const Op& op : s.ops)
        if (communicates(op)) found[communicator_of(op, s.queue, *p, messages)] |= reduces(op);
  // The last stage may send nothing forward while others do.
  if (found.contains({kPipeline, kForward}) || found.contains({kPipeline, kBackward}))
    for (const char* line : {kForward, kBackward}) found.try_emplace({kPipeline, line}, false);
  std::vector<CommunicatorUse> all;
  for (const auto& [name, adds] : found) all.push_back({name, adds});
  return all;
}

int64_t communicator_count(const Program& program) {
  const std::vector<CommunicatorUse> all = communicators_of({&program}, Messages::kPairs);
  return std::count_if(all.begin(), all.end(), [&](const CommunicatorUse& use) {
    return group_size(program.mesh, use.name.over) > 1;
  });
}

}  // namespace tessera
