// Ranks that share a GPU exchange data through the host: the operands are downloaded to the arena's
// mirror on the host, exchanged there by MPI, and uploaded again.
#include "runtime/shared_device.h"

#include <map>

#include "comm/backoff.h"

namespace tessera::runtime {

std::optional<std::pair<int64_t, int64_t>> ranks_that_share(std::span<const std::string> devices) {
  std::map<std::string, int64_t> first;
  for (int64_t r = 0; r < std::ssize(devices); ++r) {
    const auto [at, fresh] = first.try_emplace(devices[r], r);
    if (!fresh) return std::pair{at->second, r};
  }
  return std::nullopt;
}

// Operands have the same relative offsets on the host as in the arena, so in-place transfers remain
// in place.
void exchange_through_host(const Arena& arena, const PreparedOp& op) {
  const Stream stream = op.bound.launch.stream;
  BoundOp host = op.bound;
  for (size_t i = 0; i < op.op->inputs.size(); ++i)
    host.inputs[i] = arena.download(stream, op.bound.inputs[i]);
  // A transfer may write only a part of its output, so the rest must be downloaded too.
  for (size_t i = 0; i < op.op->outputs.size(); ++i)
    host.outputs[i] = arena.download(stream, op.bound.outputs[i]);
  if (host.launch.workspace)
    host.launch.workspace = arena.host({host.launch.workspace, DType::kU8, {1}}).data;
  host.kernels = &kernels::cpu_kernels();
  host.launch.stream = {};
  synchronise(stream);
  comm::wait_for(*host.channel, start_transfer(host));
  finish_transfer(host);
  for (size_t i = 0; i < op.op->outputs.size(); ++i) arena.upload(stream, host.outputs[i]);
}

}  // namespace tessera::runtime
