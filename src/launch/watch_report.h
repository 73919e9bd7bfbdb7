// The words of a verdict.
#pragma once

#include <span>

#include "launch/watch.h"

namespace tessera {

// "rank 3", "ranks 1, 3 and 7", "ranks 0-6"; `ranks` ascends.
std::string name_ranks(std::span<const int> ranks);

// What makes two errors the same: the rest is detail that one rank knows and another does not.
std::string_view first_line(const std::string& error);

// Which ranks were lost and how, what they were doing, and where the others stood. `clock_s` is the
// watch's, `lost` is not empty and its first rank the one to describe.
std::string report_loss(Loss loss, std::span<const int> lost, std::span<const RankState> ranks,
                        double clock_s);

}  // namespace tessera
