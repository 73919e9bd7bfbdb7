#include "kernels/clip.h"

#include <algorithm>
#include <cmath>

namespace tessera::kernels {

void launch(Cpu, const Launch&, const ClipArgs& c) {
  const double n = std::max(*c.tokens, 1.0) * *c.loss_scale;
  *c.norm = std::sqrt(*c.squares) / n;
  constexpr double kTiny = 1e-6;
  const double factor = c.limit > 0 ? std::min(1.0, c.limit / (*c.norm + kTiny)) : 1.0;
  *c.scale = factor / n;
  const bool finite = std::isfinite(*c.squares) && std::isfinite(*c.loss);
  *c.skip = finite && *c.skip_before == 0 ? 0 : 1;
}

}  // namespace tessera::kernels
