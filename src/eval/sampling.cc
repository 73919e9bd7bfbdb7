#include "eval/sampling.h"

#include <cmath>

#include "base/error.h"
#include "base/philox.h"

namespace tessera {

void validate(const kernels::Sampling& s) {
  if (!(s.temperature >= 0) || !std::isfinite(s.temperature)) {
    throw Error("temperature = {} is not usable: 0 takes the likeliest token, 1 samples as trained",
                s.temperature);
  }
  if (s.top_k < 0) throw Error("top_k = {} is not usable: 0 keeps all, 1 the likeliest", s.top_k);
  if (!(s.top_p > 0 && s.top_p <= 1)) {
    throw Error("top_p = {} is not usable: above 0 and at most 1, which keeps all", s.top_p);
  }
}

double sampling_uniform(uint64_t seed, uint64_t sequence, uint64_t position) {
  const PhiloxBlock b = Philox{hash_name("sampling", seed)}.block(position, sequence);
  // 53 random bits, as many as a double's fraction has.
  const uint64_t word = (uint64_t{b[0]} << 32) | b[1];
  return static_cast<double>(word >> 11) * 0x1p-53;
}

}  // namespace tessera
