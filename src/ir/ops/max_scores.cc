// The rule of max_scores. Labels are those of attention; the output has all heads of the model on
// every rank, so each split makes it a partial maximum.
#include "base/error.h"
#include "ir/operands.h"
#include "ir/ops.h"
#include "ir/ops/rules.h"

namespace tessera {
namespace {

std::vector<OutputSpec> infer(const Op& op, const Inputs& in) {
  const MaxScores& a = op.as<MaxScores>();
  CHECK(in.size() == input_count(a) && in[0]->shape.rank() == 5 && a.heads % in[0]->shape[2] == 0,
        "max_scores of {} heads expects packed qkv and the operands of its attributes", a.heads);
  return {{".max_scores", DType::kF32, {a.heads}}};
}

ShardingRule sharding(const Op& op, ValueSpan) {
  const MaxScores& a = op.as<MaxScores>();
  ShardingRule r{{"btkgd"}, {"h"}, a.separate_kv ? "btk" : "bk", {}, true};
  if (a.separate_kv) r.inputs.emplace_back("bskpd");
  if (a.documents) r.inputs.emplace_back(a.separate_kv ? "bs" : "bt");
  return r;
}

// Scores are half of the work of attention.
Cost cost(const Op& op, ValueSpan values) {
  const MaxScores& a = op.as<MaxScores>();
  const Attention as = {.separate_kv = a.separate_kv, .window = a.window};
  Cost c = cost_of_scores(op, values, as, input(op, MaxScores::kKv));
  c.flops.model = c.flops.square = 0;
  return c;
}

}  // namespace

const OpRule MaxScores::rule = {.infer = infer,
                                .sharding = sharding,
                                .cost = cost,
                                .time = TimeGroup::kAttention,
                                .effects = {.measures_step = true}};

}  // namespace tessera
