// The ops of Muon (kernels/muon.h has the formulas). Directions are in one buffer per layer, with
// each matrix of each weight's parts in its published form: a value [N, R, C] per part, N equal
// matrices (those of a rank's experts, otherwise one).
#pragma once

#include "base/newton_schulz.h"
#include "ir/ops/update.h"

namespace tessera {

// The directions of this rank's shard, and zeros elsewhere, so that the sum over the ranks that
// divide the matrices is the directions of all elements.
struct MuonDirection {
  static constexpr std::string_view kName = "muon_direction";
  enum In { kGradient, kMoment, kReport };
  enum Out { kDirections };
  BufferKindId members = kNone;
  int64_t elements = 0;  // the size of the buffer that the op writes
  double momentum = 0;
  bool nesterov = false;
  DType type = DType::kF32;
  static void fields(auto& self, auto&& visit) {
    visit("members", self.members);
    visit("elements", self.elements, Print::kAlways, at_least(1));
    visit("momentum", self.momentum, Print::kAlways, kFraction);
    visit("nesterov", self.nesterov);
    visit("type", self.type);
  }
  static const OpRule rule;
  bool operator==(const MuonDirection&) const = default;
};

// Makes the matrices [N, R, C] of a value orthogonal, approximately, in place.
struct NewtonSchulz {
  static constexpr std::string_view kName = "newton_schulz";
  enum In { kX };
  enum Out { kY };
  BufferKindId members = kNone;
  int64_t steps = 5;
  NewtonSchulzCoefficients coefficients = NewtonSchulzCoefficients::kSimple;
  static void fields(auto& self, auto&& visit) {
    visit("members", self.members);
    visit("steps", self.steps, Print::kAlways, between(1, 100));
    visit("coefficients", self.coefficients, Print::kAlways);
  }
  static const OpRule rule;
  bool operator==(const NewtonSchulz&) const = default;
};

// Updates the weights by the orthogonal directions, and the moment. Then multiplies the rows of
// queries and keys (Value::clips) whose attention scores are above the limit (QK-clip).
struct Muon {
  static constexpr std::string_view kName = "muon";
  enum In { kGradient, kStep, kReport, kDirections, kScores };
  enum Out { kWeights };
  WeightUpdate update = {};  // beta1 is the momentum
  UpdateScale scale = UpdateScale::kSpectral;
  double score_limit = 0;  // limit of attention scores; 0: none
  int64_t scores = 0;      // the number of operands with scores: one per attention of the weights
  static void fields(auto& self, auto&& visit) {
    WeightUpdate::rates(self.update, visit);
    visit("scale", self.scale, Print::kAlways);
    WeightUpdate::types(self.update, visit);
    visit("score_limit", self.score_limit, Print::kUnlessDefault, kNotNegative);
    visit("scores", self.scores, Print::kUnlessDefault, at_least(0));
  }
  static void inputs(const Muon& a, auto&& slot) {
    for (const In required : {kGradient, kStep, kReport, kDirections}) slot(required, 1);
    slot(kScores, a.scores);
  }
  static const OpRule rule;
  bool operator==(const Muon&) const = default;
};

}  // namespace tessera
