// Edits of a schedule: adds calls to it, and removes what no call of a program uses.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "ir/program.h"

namespace tessera::compile {

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

// Removes segments that this stage never calls, such as those of another stage.
void drop_uncalled(Program& p);
// Removes frames that no call touches, except those of state.
void drop_untouched(Program& p);

}  // namespace tessera::compile
