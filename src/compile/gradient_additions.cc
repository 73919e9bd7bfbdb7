#include "compile/gradient_additions.h"

namespace tessera {

GradientAdditions::GradientAdditions(const Program& p, const Expanded& e, bool each)
    : p_(p), each_(each), groups_(p.kinds.size(), kNoGroup) {
  for (size_t g = 0; g < e.groups.size(); ++g)
    if (e.groups[g].gradients != kNone) groups_[static_cast<size_t>(e.groups[g].gradients)] = g;
  for (size_t n = 0; n < p.schedule.size(); ++n)
    for (size_t i = 0; i < p.schedule[n].frames.size(); ++i) {
      if (!adds(p.schedule[n], i)) continue;
      last_of_sum_[key(p.schedule[n], i, each_)] = n;
      last_of_step_[key(p.schedule[n], i, false)] = n;
    }
}

GradientAdditions::Key GradientAdditions::key(const Call& c, size_t i, bool each) const {
  const Frame& f = p_.frame(c.frames[i]);
  return {group_of(f.kind), f.layer, each ? c.microbatch : kNone};
}

bool GradientAdditions::ends_sum(size_t n, const Call& c, size_t i) const {
  return last_of_sum_.at(key(c, i, each_)) == n;
}

bool GradientAdditions::ends_step(size_t n, const Call& c, size_t i) const {
  return last_of_step_.at(key(c, i, false)) == n;
}

}  // namespace tessera
