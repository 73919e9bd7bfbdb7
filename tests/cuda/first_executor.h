// The executor of a trainer's first program on a GPU.
#pragma once

#include "runtime/stream_executor.h"
#include "train/trainer.h"

namespace tessera::testing {

inline StreamExecutor& stream_executor(Trainer& trainer) {
  return dynamic_cast<StreamExecutor&>(trainer.machine().executor(0));
}

}  // namespace tessera::testing
