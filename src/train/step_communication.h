// The communication time and volume of a step, combined over all ranks.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "comm/world.h"
#include "runtime/executor.h"

namespace tessera::train {

// The categories in which bytes are counted. `several`: groups along more than one axis, such as
// for the loss and the gradient norm.
inline constexpr std::array<std::string_view, 4> kTrafficAxes = {"data", "tensor", "pipeline",
                                                                 "several"};
// Returns the index of the category that a group belongs to.
size_t traffic_axis(const GroupRef& group);

struct StepCommunication {
  double hidden_s = 0;      // seconds of transfers that overlap computation, mean over the ranks
  double exposed_s = 0;     // seconds in which computation waited for ranks, mean over the ranks
  double bubble_share = 0;  // fraction of all ranks' time spent waiting for other stages
  std::array<int64_t, kTrafficAxes.size()> bytes_sent{};  // summed over all ranks
  int64_t slowest_rank = 0;      // the rank that waited least, so that the others waited for it
  double slowest_over_mean = 1;  // its time without waiting, divided by the mean over all ranks
};

// Combines the measurements of all ranks; each passes those of its own step. Collective.
StepCommunication gather_communication(comm::World& world, const runtime::CommunicationTime& own,
                                       double step_s);

}  // namespace tessera::train
