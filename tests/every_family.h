// The families by what they are, so that a test of all of them takes in the next one.
#pragma once

#include <vector>

#include "model/family.h"

namespace tessera {

inline std::vector<model::Family> every_family() {
  std::vector<model::Family> out;
  for (const model::ModelFamily* f : model::all_families()) out.push_back(f->family);
  return out;
}

// Those without an encoder, which take one text.
inline std::vector<model::Family> every_decoder() {
  std::vector<model::Family> out;
  for (const model::ModelFamily* f : model::all_families())
    if (!f->has_encoder) out.push_back(f->family);
  return out;
}

inline std::vector<model::Family> families_by_experts(bool has_experts) {
  std::vector<model::Family> out;
  for (const model::ModelFamily* f : model::all_families())
    if (f->has_experts == has_experts) out.push_back(f->family);
  return out;
}

}  // namespace tessera
