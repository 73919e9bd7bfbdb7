#include "runtime/events.h"

#include "runtime/executor.h"

namespace tessera {

TensorView OpEvent::host(const TensorView& operand) const { return executor.fetch(operand); }
int64_t OpEvent::first_non_finite(const TensorView& operand) const {
  return executor.first_non_finite(operand);
}

}  // namespace tessera
