#include "kernels/initialise.h"

#include <cmath>
#include <numbers>

#include "base/philox.h"
#include "kernels/cpu/operand.h"
#include "kernels/cpu/parallel.h"

namespace tessera::kernels {

namespace {

// The four normal numbers of one block.
void four_normals(const Philox& random, int64_t block, double (&z)[4]) {
  const PhiloxBlock w = random.block(static_cast<uint64_t>(block));
  for (unsigned pair = 0; pair < 2; ++pair) {
    const double u = (w[2 * pair] + 1.0) * 0x1p-32, v = w[2 * pair + 1] * 0x1p-32;
    const double radius = std::sqrt(-2.0 * std::log(u)), angle = 2.0 * std::numbers::pi * v;
    z[2 * pair] = radius * std::cos(angle);
    z[2 * pair + 1] = radius * std::sin(angle);
  }
}

}  // namespace

void initialise_normal(const TensorView& y, const NormalInitialiser& n) {
  const Sink to(y);
  const Philox random{n.key};
  const int64_t last = n.first + y.elements();
  parallel_ranges((last + 3) / 4 - n.first / 4, kGrainElements / 16,
                  [&](int64_t from, int64_t end) {
                    for (int64_t block = n.first / 4 + from; block < n.first / 4 + end; ++block) {
                      double z[4];
                      four_normals(random, block, z);
                      for (int64_t k = 0; k < 4; ++k) {
                        const int64_t at = 4 * block + k - n.first;
                        if (at < 0 || at >= y.elements()) continue;
                        const auto value = static_cast<float>(n.mean + n.deviation * z[k]);
                        if (to.bf16) {
                          static_cast<BF16*>(to.data)[at] = BF16(value);
                        } else {
                          static_cast<float*>(to.data)[at] = value;
                        }
                      }
                    }
                  });
}

}  // namespace tessera::kernels
