// Gives all ranks logits that each of them has a part of. Internal to the module.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "eval/language_model.h"

namespace tessera::eval {

// A row and a token of the logits [B, T, V] of a program.
struct LogitsPlace {
  int64_t row = 0, token = 0;
};

class GatheredLogits {
 public:
  // Returns the logits [places, V] on all ranks, valid until the next call. Collective: all ranks
  // give the same places and their own parts, which together have every id.
  std::span<const float> gather(const LogitsPart& part, std::span<const LogitsPlace> places,
                                int64_t vocabulary, comm::World& world);

 private:
  std::vector<double> exchanged_;
  std::vector<float> logits_;
};

}  // namespace tessera::eval
