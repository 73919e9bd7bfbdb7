#include "ir/attention_operands.h"

namespace tessera {

AttentionOperands attention_operands(const Attributes& a, int first) {
  AttentionOperands at;
  at.count = first;
  if (a.has("across")) at.across = at.count++;
  if (a.has("bias_distance")) at.bias = at.count++;
  if (a.has("seen")) at.seen = at.count++;
  if (a.number("dropout") > 0) {
    at.samples = at.count++;
    at.step = at.count++;
  }
  return at;
}

}  // namespace tessera
