// What all passes read: the request, and the decisions that are made from it once.
#pragma once

#include "compile/layout.h"
#include "compile/request.h"
#include "compile/zero_plan.h"
#include "ir/target.h"

namespace tessera {

struct Context {
  CompileRequest request;  // without dropout, except for training
  Recompute recompute;
  ZeroPlan zero;
  Target target;

  bool trains() const { return request.purpose == Purpose::kTrain; }
  bool generates() const {
    return request.purpose == Purpose::kLogits || request.purpose == Purpose::kDecode;
  }
};
// Throws Error for a recomputation that does not exist.
Context context_of(const CompileRequest& request, const Target& target);

}  // namespace tessera
