// Moves optimizer state to the host's memory, and adds the copies around the calls that use it.
#include "compile/schedule/schedule_passes.h"

#include <map>
#include <utility>

#include "base/error.h"
#include "compile/schedule/edit_schedule.h"
#include "compile/schedule/host_copies.h"

namespace tessera::compile {
namespace {

class StateCopier {
 public:
  explicit StateCopier(Program& p) : p_(p), copies_(p), used_(p.buffers.size(), false) {
    for (const BufferId f : p.buffers.ids())
      if (const Buffer& buffer = p.buffer(f); buffer.state && p.kind(buffer.kind).host)
        hosts_[{device_kind(buffer.kind), buffer.layer}] = f;
  }

  void run() {
    for (const CallId c : p_.schedule.ids())
      for (size_t i = 0; i < p_.schedule[c].buffers.size(); ++i) copy(c, i);
    added_.apply(p_);
  }

 private:
  // Adds the transfers of one buffer of a call: in before the call, out after it if it is updated.
  void copy(CallId c, size_t parameter) {
    BufferId& device = p_.schedule[c].buffers[parameter];
    const Buffer buffer = p_.buffer(device);
    const auto host = hosts_.find({buffer.kind, buffer.layer});
    if (host == hosts_.end()) return;
    if (used_[device]) {
      device = p_.buffers.push_back(buffer);
      used_.push_back(false);
    }
    used_[device] = true;
    const Access access = p_.segment(p_.schedule[c]).buffers[parameter].access;
    CHECK(access == Access::kRead || access == Access::kUpdate, "{} does not read {}",
          call_name(p_, c), buffer_name(p_, device));
    const HostCopy& copies = copies_.of(buffer.kind);
    added_.before(c, copy_call(copies.in, buffer, {host->second, device}));
    if (access == Access::kUpdate)
      added_.after(c, copy_call(copies.out, buffer, {device, host->second}));
  }

  BufferKindId device_kind(BufferKindId host) const {
    return p_[p_[p_.kind(host).values.at(0)].of].buffer;
  }

  Program& p_;
  HostCopies copies_;
  IdVector<BufferId, bool> used_;  // true if an earlier call has it
  // State on the host, by its kind on the device and its layer.
  std::map<std::pair<BufferKindId, int64_t>, BufferId> hosts_;
  AddedCalls added_;
};

}  // namespace

void move_state(LoweredGraph& e) {
  HostCopies copies(e.program);
  for (WeightGroup& g : e.groups)
    for (BufferKindId& kind : g.state) {
      if (!is_flat_state(e.program[e.program.kind(kind).values.at(0)].role)) continue;
      const BufferKindId host = copies.of(kind).host;
      e.program.kinds[kind].state = false;
      kind = host;
    }
}

void copy_state(Program& program) { StateCopier(program).run(); }

}  // namespace tessera::compile
