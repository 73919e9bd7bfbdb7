// Combines the communication times of all ranks by two all-reduces: sums for the means, and a
// maximum that finds the slowest rank.
#include "train/step_communication.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace tessera::train {
namespace {

constexpr size_t kData = 0, kTensor = 1, kPipeline = 2, kSeveral = 3;
// Indices in the array of sums over the ranks; the bytes come last.
constexpr size_t kHidden = 0, kExposed = 1, kBubble = 2, kBusy = 3, kBytes = 4;
constexpr size_t kSums = kBytes + kTrafficAxes.size();

// The longest time and its rank are encoded in one number, so that one maximum finds both:
// microseconds in the upper part, the rank in the lower 20 bits. It is below 2^53, exact in a
// double, for steps of up to two hours.
constexpr int64_t kMaxRanks = 1 << 20;

size_t traffic_of(AxisKind axis) {
  if (is_data(axis)) return kData;
  if (axis == AxisKind::kTensor || axis == AxisKind::kTensorKv || axis == AxisKind::kContext)
    return kTensor;
  return axis == AxisKind::kPipeline ? kPipeline : kSeveral;
}

}  // namespace

size_t traffic_axis(const GroupRef& group) {
  if (group.kind == GroupRef::Kind::kWorld) return kSeveral;
  if (group.kind == GroupRef::Kind::kStages) return kPipeline;
  std::set<size_t> all;
  const bool state = group.has(AxisKind::kShard);  // divided over kContext too
  for (const AxisKind axis : Enumerators<AxisKind>())
    if (group.has(axis) && !(state && axis == AxisKind::kContext)) all.insert(traffic_of(axis));
  return all.size() == 1 ? *all.begin() : kSeveral;
}

StepCommunication gather_communication(comm::World& world, const runtime::CommunicationTime& own,
                                       double step_s) {
  // The time without waiting. In a synchronous step all ranks have the same total time, but the
  // slowest one waits least.
  const double busy = step_s - own.exposed_s;
  std::array<double, kSums> sums{};
  sums[kHidden] = std::max(0.0, own.total_s - own.exposed_s);
  sums[kExposed] = own.exposed_s;
  sums[kBusy] = busy;
  for (const auto& [group, seconds] : own.exposed_by)
    if (traffic_axis(group) == kPipeline) sums[kBubble] += seconds / step_s;
  for (const auto& [group, bytes] : own.bytes_sent)
    sums[kBytes + traffic_axis(group)] += static_cast<double>(bytes);
  world.all_reduce(sums, comm::Reduction::kSum);
  // The rank number is reversed, so that among equal times the maximum selects the lowest rank.
  double slowest =
      std::floor(busy * 1e6) * kMaxRanks + static_cast<double>(kMaxRanks - 1 - world.rank());
  world.all_reduce({&slowest, 1}, comm::Reduction::kMax);

  StepCommunication all;
  const auto n = static_cast<double>(world.size());
  all.hidden_s = sums[kHidden] / n;
  all.exposed_s = sums[kExposed] / n;
  all.bubble_share = sums[kBubble] / n;
  for (size_t i = 0; i < all.bytes_sent.size(); ++i)
    all.bytes_sent[i] = std::llrint(sums[kBytes + i]);
  const double most_us = std::floor(slowest / kMaxRanks);
  all.slowest_rank = kMaxRanks - 1 - static_cast<int64_t>(slowest - most_us * kMaxRanks);
  all.slowest_over_mean = most_us / 1e6 / (sums[kBusy] / n);
  return all;
}

}  // namespace tessera::train
