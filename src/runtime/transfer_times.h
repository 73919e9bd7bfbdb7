// Times of the transfers of one run on a device, by events with timing around them.
#pragma once

#include <vector>

#include "runtime/events.h"
#include "tensor/gpu.h"

namespace tessera {

class TransferTimes {
 public:
  enum class What { kTransfer, kWait, kBoth };  // kBoth: a transfer of the compute queue

  void start() { used_ = 0; }  // of a run
  // Between these two in a stream: a transfer, or a wait of the compute queue for one.
  void begin(Stream s, What what, const GroupRef& group);
  void end(Stream s);
  // After the run: adds the seconds to `time`.
  void collect(CommunicationTime& time) const;

 private:
  struct Span {
    GpuEvent from{GpuEvent::Timing::kOn}, to{GpuEvent::Timing::kOn};
    What what = What::kTransfer;
    GroupRef group;
  };
  std::vector<Span> spans_;  // kept for the next run that is timed
  size_t used_ = 0;
};

}  // namespace tessera
