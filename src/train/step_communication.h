// What the ranks did with the time of a step besides computing, brought together from all of them.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "comm/world.h"
#include "runtime/executor.h"

namespace tessera::train {

// What bytes are counted by. `several`: groups along more than one axis, as of the loss and the
// norm.
inline constexpr std::array<std::string_view, 4> kTrafficAxes = {"data", "tensor", "pipeline",
                                                                 "several"};
// Returns which of them a group belongs to.
size_t traffic_axis(const GroupRef& group);

struct StepCommunication {
  // Mean over the ranks, in seconds: of all transfers from start to end, less what is exposed …
  double hidden_s = 0;
  double exposed_s = 0;     // … and the computing thread waited for other ranks
  double bubble_share = 0;  // of all ranks' time: waiting for messages of other stages
  std::array<int64_t, kTrafficAxes.size()> bytes_sent{};  // by all ranks
  int64_t slowest_rank = 0;      // that waited least, so that the others waited for it
  double slowest_over_mean = 1;  // its time without waiting over the mean of all
};

// Collective: each rank gives its own step.
StepCommunication gather_communication(comm::World& world, const runtime::CommunicationTime& own,
                                       double step_s);

}  // namespace tessera::train
