// How far a run has come on a device, in memory that the host reads while the device runs: a number
// per queue, which a kernel writes before and after each transfer. They name the transfer that a
// run which does not end waits for.
#pragma once

#include <cstdint>
#include <set>

#include "ir/program.h"
#include "tensor/cuda.h"
#include "tensor/tensor.h"

namespace tessera {

class DeviceMarks {
 public:
  // From now on transfers of this queue are marked. Takes the memory; not during a capture.
  void use(Queue queue);
  bool used() const { return !queues_.empty(); }

  // Enqueued in the main stream at the start of a run: nothing is done.
  void clear(Stream s);
  // Enqueued around a transfer; numbers are positive and rise within a queue.
  void started(Stream s, Queue queue, int64_t number) { write(s, queue, 2 * number); }
  void done(Stream s, Queue queue, int64_t number) { write(s, queue, 2 * number + 1); }

  // Read by the host.
  bool is_started(Queue queue, int64_t number) const { return last(queue) >= 2 * number; }
  bool is_done(Queue queue, int64_t number) const { return last(queue) > 2 * number; }
  int64_t sum() const;  // another one whenever a transfer starts or ends

 private:
  void write(Stream s, Queue queue, int64_t number);
  int64_t last(Queue queue) const;

  std::set<Queue> queues_;
  Buffer memory_;
  PinnedPages pinned_;
};

}  // namespace tessera
