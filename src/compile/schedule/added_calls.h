// Calls that a pass adds to a schedule, each before or after a call that is already there.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "ir/program.h"

namespace tessera {

class AddedCalls {
 public:
  // Calls at one place keep the order in which they were added.
  void before(CallId at, Call c) { before_[at].push_back(std::move(c)); }
  void after(CallId at, Call c) { after_[at].push_back(std::move(c)); }
  // Writes the schedule of `p` with all of them. May be called once.
  void apply(Program& p);

 private:
  std::map<CallId, std::vector<Call>> before_, after_;
};

}  // namespace tessera
