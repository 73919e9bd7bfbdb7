// The executor of a trainer's first program on a GPU.
#pragma once

#include "runtime/stream_executor.h"
#include "train/trainer.h"

namespace tessera::testing {

inline runtime::StreamExecutor& stream_executor(train::Trainer& trainer) {
  return dynamic_cast<runtime::StreamExecutor&>(trainer.engine().executor(0));
}

}  // namespace tessera::testing
