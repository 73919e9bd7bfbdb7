// The requirements of a machine's libraries, as data: the same program can be laid out for a run
// (from this machine's libraries) and for a plan (from a cluster's file).
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "ir/op.h"

namespace tessera {

struct Target {
  using Bytes = std::function<int64_t(const Op&, ValueSpan)>;
  int64_t alignment = 64;          // bytes, for every buffer and value
  bool ordered_transfers = false;  // Program::ordered_transfers
  Bytes workspace_bytes = [](const Op&, ValueSpan) { return int64_t{0}; };
  // Returns the bytes of the packed weight of a matmul or matmul_grad_input; 0: do not pack it.
  Bytes packed_bytes = [](const Op&, ValueSpan) { return int64_t{0}; };
};

}  // namespace tessera
