// What the machine's libraries ask of a program, as data: the same program is laid out for the run
// (from the library at hand) and for the plan (from a cluster's file).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "ir/op.h"

namespace tessera {

struct Target {
  using Bytes = std::function<int64_t(const Op&, ValueSpan)>;
  int64_t alignment = 64;          // bytes, of every frame and value
  bool ordered_transfers = false;  // Program::ordered_transfers
  Bytes workspace_bytes = [](const Op&, ValueSpan) { return int64_t{0}; };
  // Of the weight of a matmul or matmul_grad_input; 0: the plain weight is as good.
  Bytes packed_bytes = [](const Op&, ValueSpan) { return int64_t{0}; };
};

}  // namespace tessera
