// Bindings of the ops that pack the heads of latent attention.
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

kernels::LatentHeadsArgs args(const BoundOp& b) {
  return {b.in(LatentHeads::kQueries), b.in(LatentHeads::kExpanded), b.in(LatentHeads::kRopeKey),
          b.out(LatentHeads::kPacked)};
}

kernels::LatentHeadsGradArgs grad_args(const BoundOp& b) {
  return {b.in(LatentHeadsGrad::kDPacked), b.out(LatentHeadsGrad::kDQueries),
          b.out(LatentHeadsGrad::kDExpanded), b.out(LatentHeadsGrad::kDShared)};
}

}  // namespace

template <>
const Binding& binding_for<LatentHeads>() {
  static constexpr Binding kBinding = kernel<args>();
  return kBinding;
}
template <>
const Binding& binding_for<LatentHeadsGrad>() {
  static constexpr Binding kBinding = kernel<grad_args>();
  return kBinding;
}

}  // namespace tessera::runtime
