// The dynamic loss scale. Its factor is a power of two, so that scaling and unscaling are exact.
// Checkpoints store its state, and invalid values of a damaged checkpoint are rejected.
#include "train/loss_scale.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/tree.h"

namespace tessera::train {
namespace {

constexpr double kFactor = 2;
constexpr double kMost = 0x1p24;  // above it, f16 gradients overflow in any case

[[noreturn]] void damaged(const char* name, const Tree& found, const char* expected) {
  throw Error("the checkpoint's state.{} is {}, expected {}. Resume from another checkpoint.", name,
              to_json(found), expected);
}

void read(const Tree& state, const char* name, double& value) {
  const Tree* found = state.find(name);
  if (found == nullptr) return;
  value = number_in(*found).value_or(0);
  if (!(std::isfinite(value) && value > 0)) damaged(name, *found, "a number above 0");
}

void read(const Tree& state, const char* name, int64_t& value) {
  constexpr int64_t kMostSteps = int64_t{1} << 53;
  const Tree* found = state.find(name);
  if (found == nullptr) return;
  const auto* n = std::get_if<int64_t>(&found->value);
  if (n == nullptr || *n < 0 || *n > kMostSteps) damaged(name, *found, "an integer of 0 or more");
  value = *n;
}

}  // namespace

bool LossScale::update(bool finite) {
  if (finite) {
    if (++good_ < rule_.window) return true;
    good_ = 0;
    patience_ = rule_.hysteresis;
    scale_ = std::min(scale_ * kFactor, kMost);
    return true;
  }
  ++skipped_;
  good_ = 0;
  if (--patience_ > 0) return true;
  patience_ = 1;  // until a window has passed, each overflow halves the scale
  // The scale is at its minimum: a step that overflows now would overflow forever.
  if (scale_ <= rule_.min) return false;
  scale_ = std::max(scale_ / kFactor, rule_.min);
  return true;
}

Tree LossScale::state() const {
  Tree t = Tree::object();
  t.set("loss_scale", Tree(scale_));
  t.set("good_steps", Tree(good_));
  t.set("patience", Tree(patience_));
  t.set("skipped", Tree(skipped_));
  return t;
}

void LossScale::restore(const Tree& state) {
  if (state.as_members() == nullptr) return;
  read(state, "loss_scale", scale_);
  read(state, "good_steps", good_);
  read(state, "patience", patience_);
  read(state, "skipped", skipped_);
}

}  // namespace tessera::train
