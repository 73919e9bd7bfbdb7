// Moves optimizer state to the host's memory, and adds the copies around the calls that use it.
#include "compile/schedule/schedule_passes.h"

#include <map>
#include <utility>

#include "base/error.h"
#include "compile/schedule/edit_schedule.h"
#include "compile/schedule/host_copies.h"

namespace tessera::compile {
namespace {

bool moves(Role role) { return role == Role::kMaster || is_state_of_elements(role); }

class StateCopier {
 public:
  explicit StateCopier(Program& p) : p_(p), copies_(p), used_(p.frames.size(), false) {
    for (const FrameId f : p.frames.ids())
      if (const Frame& frame = p.frame(f); frame.state && p.kind(frame.kind).host)
        hosts_[{device_kind(frame.kind), frame.layer}] = f;
  }

  void run() {
    for (const CallId c : p_.schedule.ids())
      for (size_t i = 0; i < p_.schedule[c].frames.size(); ++i) copy(c, i);
    added_.apply(p_);
  }

 private:
  // Adds the copies of one parameter of a call.
  void copy(CallId c, size_t parameter) {
    FrameId& device = p_.schedule[c].frames[parameter];
    const Frame frame = p_.frame(device);
    const auto host = hosts_.find({frame.kind, frame.layer});
    if (host == hosts_.end()) return;
    if (used_[device]) {
      device = p_.frames.push_back(frame);
      used_.push_back(false);
    }
    used_[device] = true;
    const Access access = p_.segment(p_.schedule[c]).frames[parameter].access;
    CHECK(access == Access::kRead || access == Access::kUpdate, "{} does not read {}",
          call_name(p_, c), frame_name(p_, device));
    const HostCopy& copies = copies_.of(frame.kind);
    added_.before(c, copy_call(copies.in, frame, {host->second, device}));
    if (access == Access::kUpdate)
      added_.after(c, copy_call(copies.out, frame, {device, host->second}));
  }

  FrameKindId device_kind(FrameKindId host) const {
    return p_[p_[p_.kind(host).values.at(0)].of].frame;
  }

  Program& p_;
  HostCopies copies_;
  IdVector<FrameId, bool> used_;  // true if an earlier call has it
  // State on the host, by its kind on the device and its layer.
  std::map<std::pair<FrameKindId, int64_t>, FrameId> hosts_;
  AddedCalls added_;
};

}  // namespace

void move_state(Expanded& e) {
  HostCopies copies(e.program);
  for (WeightGroup& g : e.groups)
    for (FrameKindId& kind : g.state) {
      if (!moves(e.program[e.program.kind(kind).values.at(0)].role)) continue;
      const FrameKindId host = copies.of(kind).host;
      e.program.kinds[kind].state = false;
      kind = host;
    }
}

void copy_state(Program& program) { StateCopier(program).run(); }

}  // namespace tessera::compile
