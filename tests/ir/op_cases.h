// Every op on sample inputs: what comes out, and its FLOPs counted by hand.
#pragma once

#include <string>
#include <vector>

#include "ir/op.h"

namespace tessera::testing {

struct In {
  DType dtype;
  Shape shape;
  Role role = Role::kActivation;
};

struct Case {
  std::string name;
  OpAttributes attributes;
  std::vector<In> inputs;
  std::vector<In> outputs;  // their types and shapes
  double flops = 0;
};

std::vector<Case> cases();
std::vector<Case> attention_cases();  // those of attention among them

}  // namespace tessera::testing
