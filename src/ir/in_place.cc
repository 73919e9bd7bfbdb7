#include "ir/in_place.h"

namespace tessera {

InPlace in_place(const Op& op) {
  const auto last = static_cast<int>(op.inputs.size()) - 1;
  switch (op.kind) {
    case OpKind::kSum:
    case OpKind::kScale:
    case OpKind::kRotary:
    case OpKind::kDropout:
    case OpKind::kDropoutGrad:
    case OpKind::kSoftmax:
    case OpKind::kGelu:
      return {0, 0};
    case OpKind::kCrossEntropy:
    case OpKind::kDividedCrossEntropy:
      return op.outputs.size() > 1 ? InPlace{0, 1} : InPlace{};
    case OpKind::kAttentionScoresGrad:  // adds its parts to the gradient so far
    case OpKind::kGeluGrad:
    case OpKind::kSoftmaxGrad:
      return {last, 0};  // dx over dy
    case OpKind::kNormGrad:
    case OpKind::kRmsNormGrad:
      return {op.attributes.integer("add") ? last : 3, 0};  // over what it adds to, or over dy
    default:
      return {};
  }
}

}  // namespace tessera
