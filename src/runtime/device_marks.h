// The progress of a run on a device, in memory that the host can read during the run: one number
// per queue, which a kernel writes before and after each transfer. If a run hangs, the numbers
// identify the transfer that it waits for.
#pragma once

#include <cstdint>
#include <set>

#include "ir/program.h"
#include "tensor/gpu.h"
#include "tensor/tensor.h"

namespace tessera::runtime {

class DeviceMarks {
 public:
  // Enables marks for the transfers of this queue. Allocates memory, so it must not be called
  // during a graph capture.
  void use(Queue queue);
  bool used() const { return !queues_.empty(); }

  // Enqueues a reset of all marks; called on the main stream at the start of a run.
  void clear(Stream s);
  // Enqueue a mark before and after a transfer. Numbers are positive and increase within a queue.
  void started(Stream s, Queue queue, int64_t number) { write(s, queue, 2 * number); }
  void done(Stream s, Queue queue, int64_t number) { write(s, queue, 2 * number + 1); }

  // Called on the host: whether the transfer has started or completed.
  bool is_started(Queue queue, int64_t number) const { return last(queue) >= 2 * number; }
  bool is_done(Queue queue, int64_t number) const { return last(queue) > 2 * number; }
  bool changed();  // whether a transfer has started or ended since the last call

 private:
  void write(Stream s, Queue queue, int64_t number);
  int64_t last(Queue queue) const;
  int64_t sum() const;  // changes whenever a transfer starts or ends

  std::set<Queue> queues_;
  int64_t seen_ = -1;  // sum() at the last call of changed()
  HostBuffer memory_;
  PinnedPages pinned_;
};

}  // namespace tessera::runtime
