// The progress of a run on a device, in memory that the host reads meanwhile: one number per queue,
// which a kernel writes before and after each transfer. The numbers identify the transfer that a
// run waits for if it does not end.
#pragma once

#include <cstdint>
#include <set>

#include "ir/program.h"
#include "tensor/gpu.h"
#include "tensor/tensor.h"

namespace tessera::runtime {

class DeviceMarks {
 public:
  // Marks transfers of this queue from now on. Allocates the memory, so it must not be called
  // during a capture.
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
  bool changed();  // whether a transfer has started or ended since the last question

 private:
  void write(Stream s, Queue queue, int64_t number);
  int64_t last(Queue queue) const;
  int64_t sum() const;  // changes whenever a transfer starts or ends

  std::set<Queue> queues_;
  int64_t seen_ = -1;  // sum() at the last question
  Buffer memory_;
  PinnedPages pinned_;
};

}  // namespace tessera::runtime
