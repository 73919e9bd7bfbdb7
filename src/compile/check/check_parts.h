// The parts of check(), one file each. Each returns the faults that it finds.
#pragma once

#include <string>
#include <vector>

#include "compile/check/check.h"

namespace tessera::compile {

// Per rank and call, the channel that the call uses: the same text on all members; empty for a call
// that involves this rank only.
using ChannelNames = std::vector<IdVector<CallId, std::string>>;
ChannelNames channel_names(const std::vector<const Program*>& ranks);

// Per rank, the positions of two consecutive copies of the schedule, in an order in which they can
// run.
using RunOrder = std::vector<std::vector<int64_t>>;

// match: the communication of each call is what the ops of its segment communicate, and a call
// waits only for calls that are issued before it.
std::vector<Finding> check_wires(const Program& p, int rank);
// match: the members of each channel agree.
std::vector<Finding> check_match(const std::vector<const Program*>& ranks,
                                 const ChannelNames& names);
// cycle: no ranks wait for each other. If there is no cycle, sets `order` to an order that can run.
std::vector<Finding> check_cycle(const std::vector<const Program*>& ranks,
                                 const ChannelNames& names, RunOrder& order);

// race: calls of one rank that use the same bytes are ordered. `order` is this rank's entry of a
// RunOrder.
std::vector<Finding> check_race(const Program& p, int rank, const std::vector<int64_t>& order);
// value: each read finds the value that it expects.
std::vector<Finding> check_value(const Program& p, int rank, const std::vector<int64_t>& order);
// value: what is written is read. Call it for programs in which check_value finds nothing.
std::vector<Finding> check_unread(const Program& p, int rank, const std::vector<int64_t>& order);
// value: without a symbolic run, each call uses buffers of its own layer and micro-batch that do
// not overlap; buffers of one kind are used equally often, and no call occurs twice.
std::vector<Finding> check_calls(const Program& p, int rank);
// value: weights that were updated in shards are gathered before they are read in full.
std::vector<Finding> check_own(const Program& p, int rank, const std::vector<int64_t>& order);
// value: gradient sums are reduced over the right mesh axes.
std::vector<Finding> check_sums(const Program& p, int rank, const std::vector<int64_t>& order);

}  // namespace tessera::compile
