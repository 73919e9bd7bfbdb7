#include "runtime/transfer_times.h"

namespace tessera {

void TransferTimes::begin(Stream s, What what, const GroupRef& group) {
  if (used_ == spans_.size()) spans_.emplace_back();
  Span& span = spans_[used_];
  span.what = what;
  span.group = group;
  span.from.record(s);
}

void TransferTimes::end(Stream s) { spans_[used_++].to.record(s); }

void TransferTimes::collect(CommunicationTime& time) const {
  for (size_t i = 0; i < used_; ++i) {
    const Span& span = spans_[i];
    const double seconds = span.to.seconds_since(span.from);
    if (span.what != What::kWait) time.total_s += seconds;
    if (span.what == What::kTransfer) continue;
    time.exposed_s += seconds;
    time.exposed_by[span.group] += seconds;
  }
}

}  // namespace tessera
