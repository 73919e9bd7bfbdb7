// Determines the communicators that a program needs, and their names. Collectives of different
// queues use different communicators, because transfers of one communicator complete in order.
// Messages use one communicator per direction, or one per direction and pair of stages if the
// operations of a communicator run one after another (NCCL).
#include "ir/communicators.h"

#include <algorithm>
#include <map>

#include "base/error.h"
#include "ir/names.h"
#include "ir/rule.h"

namespace tessera {
namespace {

struct Way {
  bool forward = false, sends = false;
};

Way way_of(const Op& op, Queue queue) {
  const bool forward = queue == Queue::kSendForward || queue == Queue::kReceiveForward;
  CHECK(forward || queue == Queue::kSendBackward || queue == Queue::kReceiveBackward,
        "{} is in queue {}", op.origin, name_of(queue));
  return {forward, queue == Queue::kSendForward || queue == Queue::kSendBackward};
}

Queue sending_queue(const Way& way) {
  return way.forward ? Queue::kSendForward : Queue::kSendBackward;
}

// Returns the communicator of messages with the neighboring stage. With interleaved schedules, the
// stage after the last is the first.
CommunicatorName pair_of(const Way& way, int64_t stage, int64_t stages) {
  const int64_t step = way.forward == way.sends ? 1 : stages - 1, other = (stage + step) % stages;
  return {GroupRef::of_stages({std::min(stage, other), std::max(stage, other)}), sending_queue(way),
          way.sends ? stage : other};
}

}  // namespace

CommunicatorName communicator_of(const Op& op, Queue queue, const Program& program,
                                 MessageCommunicators messages) {
  if (!is_message(op)) return {*over_of(op.attributes), queue, kNone};
  const Way way = way_of(op, queue);
  if (messages == MessageCommunicators::kShared)
    return {GroupRef::along({AxisKind::kPipeline}), sending_queue(way), kNone};
  return pair_of(way, program.stage, program.mesh[AxisKind::kPipeline]);
}

std::vector<CommunicatorUse> communicators_of(const std::vector<const Program*>& programs,
                                              MessageCommunicators messages) {
  std::map<CommunicatorName, bool> found;
  for (const Program* p : programs)
    for (const Segment& s : p->segments)
      for (const Op& op : s.ops)
        if (communicates(op))
          found[communicator_of(op, queue_of(op, s.queue), *p, messages)] |= reduces(op);
  // The last stage may send nothing forward while other stages do, but all ranks must create the
  // same communicators.
  const GroupRef pipeline = GroupRef::along({AxisKind::kPipeline});
  const CommunicatorName forward = {pipeline, Queue::kSendForward, kNone};
  const CommunicatorName backward = {pipeline, Queue::kSendBackward, kNone};
  if (found.contains(forward) || found.contains(backward))
    for (const CommunicatorName& name : {forward, backward}) found.try_emplace(name, false);
  std::vector<CommunicatorUse> all;
  for (const auto& [name, adds] : found) all.push_back({name, adds});
  return all;
}

int64_t communicator_count(const Program& program) {
  const std::vector<CommunicatorUse> all =
      communicators_of({&program}, MessageCommunicators::kPairs);
  return std::count_if(all.begin(), all.end(), [&](const CommunicatorUse& use) {
    return group_size(program.mesh, use.name.over) > 1;
  });
}

}  // namespace tessera
