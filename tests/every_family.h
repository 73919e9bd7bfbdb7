// The families by what they are, so that a test of all of them takes in the next one.
#pragma once

#include <vector>

#include "model/family.h"

namespace tessera {

inline std::vector<Family> every_family() {
  std::vector<Family> out;
  for (const FamilyRule* f : all_families()) out.push_back(f->family);
  return out;
}

// Those without an encoder, which take one text.
inline std::vector<Family> every_decoder() {
  std::vector<Family> out;
  for (const FamilyRule* f : all_families())
    if (!f->encodes) out.push_back(f->family);
  return out;
}

}  // namespace tessera
