// Inserts calls into a schedule in one sweep.
#include "compile/schedule/added_calls.h"

namespace tessera {

void AddedCalls::apply(Program& p) {
  IdVector<CallId, Call> calls;
  calls.swap(p.schedule);
  const auto add = [&](std::map<CallId, std::vector<Call>>& added, CallId at) {
    const auto found = added.find(at);
    if (found == added.end()) return;
    for (Call& c : found->second) p.schedule.push_back(std::move(c));
  };
  for (const CallId c : calls.ids()) {
    add(before_, c);
    p.schedule.push_back(std::move(calls[c]));
    add(after_, c);
  }
}

}  // namespace tessera
