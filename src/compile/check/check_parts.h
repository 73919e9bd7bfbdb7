// The parts of check(), a file each. Each names the faults that it finds.
#pragma once

#include <string>
#include <vector>

#include "compile/check/check.h"

namespace tessera::compile {

// Of each rank, of each call, the line of events that it belongs to: the same text on all its
// members, empty for a call that concerns nobody else.
using ChannelNames = std::vector<IdVector<CallId, std::string>>;
ChannelNames channel_names(const std::vector<const Program*>& ranks);

// Of each rank, the positions of the schedule written twice in a row, in an order in which they
// can run.
using RunOrder = std::vector<std::vector<int64_t>>;

// match: what each call of a rank says of its communication is what the ops of its segment do, and
// it waits for nothing that is issued after it.
std::vector<Finding> check_wires(const Program& p, int rank);
// match: the members of each channel agree.
std::vector<Finding> check_match(const std::vector<const Program*>& ranks,
                                 const ChannelNames& names);
// cycle: and if there is none, the order of a run.
std::vector<Finding> check_cycle(const std::vector<const Program*>& ranks,
                                 const ChannelNames& names, RunOrder& order);

// Of one rank; `order` is its part of a RunOrder.
std::vector<Finding> check_race(const Program& p, int rank, const std::vector<int64_t>& order);
// value: what each read finds.
std::vector<Finding> check_value(const Program& p, int rank, const std::vector<int64_t>& order);
// value: what is written is read, by programs in which check_value finds nothing.
std::vector<Finding> check_unread(const Program& p, int rank, const std::vector<int64_t>& order);
// value: what each call takes, without a run: frames of its own, apart; each as often as others of
// its kind, none twice.
std::vector<Finding> check_calls(const Program& p, int rank);
// value: what was updated in part is gathered before the whole is read.
std::vector<Finding> check_own(const Program& p, int rank, const std::vector<int64_t>& order);
// value: what sums mean over the axes of the mesh.
std::vector<Finding> check_sums(const Program& p, int rank, const std::vector<int64_t>& order);

}  // namespace tessera::compile
