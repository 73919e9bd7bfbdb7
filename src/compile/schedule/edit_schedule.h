// Edits of a schedule: adds calls to it, and removes what no call uses.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "ir/program.h"

namespace tessera::compile {

class AddedCalls {
 public:
  // Calls added at one position keep the order in which they were added.
  void before(CallId at, Call c) { before_[at].push_back(std::move(c)); }
  void after(CallId at, Call c) { after_[at].push_back(std::move(c)); }
  // Rewrites the schedule of `p` with all added calls. May be called once.
  void apply(Program& p);

 private:
  std::map<CallId, std::vector<Call>> before_, after_;
};

// Removes segments that this stage never calls, such as those of another stage.
void drop_uncalled(Program& p);
// Removes buffers that no call uses, except state.
void drop_untouched(Program& p);

}  // namespace tessera::compile
