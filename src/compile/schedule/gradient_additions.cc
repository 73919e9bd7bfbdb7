// Finds the calls that complete a gradient sum: the last call that adds to (group, layer), per step
// or per micro-batch.
#include "compile/schedule/gradient_additions.h"

namespace tessera::compile {

GradientAdditions::GradientAdditions(const Program& p, const LoweredGraph& e, bool each)
    : p_(p), each_(each), groups_(p.kinds.size()) {
  for (const GroupId g : e.groups.ids())
    if (e.groups[g].gradients != kNone) groups_[e.groups[g].gradients] = g;
  for (const CallId n : p.schedule.ids())
    for (size_t i = 0; i < p.schedule[n].buffers.size(); ++i) {
      if (!adds(p.schedule[n], i)) continue;
      last_of_sum_[key(p.schedule[n], i, each_)] = n;
      last_of_step_[key(p.schedule[n], i, false)] = n;
    }
}

GradientAdditions::Key GradientAdditions::key(const Call& c, size_t i, bool each) const {
  const Buffer& f = p_.buffer(c.buffers[i]);
  return {group_of(f.kind), f.layer, each ? c.microbatch : int64_t{kNone}};
}

bool GradientAdditions::ends_sum(CallId n, const Call& c, size_t i) const {
  return last_of_sum_.at(key(c, i, each_)) == n;
}

bool GradientAdditions::ends_step(CallId n, const Call& c, size_t i) const {
  return last_of_step_.at(key(c, i, false)) == n;
}

}  // namespace tessera::compile
