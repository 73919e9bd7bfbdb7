#include "runtime/host_relay.h"

#include "comm/idle.h"

namespace tessera {

// The operands have the same distances on the host as in the arena.
void exchange_through_host(const Arena& arena, const PreparedOp& op) {
  const Stream stream = op.bound.stream;
  BoundOp host = op.bound;
  for (size_t i = 0; i < op.op->inputs.size(); ++i)
    host.in[i] = arena.download(stream, op.bound.in[i]);
  // A transfer may write a piece of its output.
  for (size_t i = 0; i < op.op->outputs.size(); ++i)
    host.out[i] = arena.download(stream, op.bound.out[i]);
  if (host.workspace) host.workspace = arena.host({host.workspace, DType::kU8, {1}}).data;
  host.kernels = &kernels::cpu_kernels();
  host.stream = {};
  synchronise(stream);
  wait_for(*host.channel, start_communication(host));
  finish_communication(host);
  for (size_t i = 0; i < op.op->outputs.size(); ++i) arena.upload(stream, host.out[i]);
}

}  // namespace tessera
