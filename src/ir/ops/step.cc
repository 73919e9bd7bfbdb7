// What a step does to state, once for each weight:
//   clear     report = 0
//   pack      a weight into the layout of one product (attribute `product`: matmul or
//             matmul_grad_input)
//   squares   report[squares] += Σ g²
//   clip      from loss tokens n, squares and the loss scale s (where the step is an input; else
//   1):
//             norm = sqrt(squares) / (n s), scale = min(1, clip / norm) / (n s), skip = 1 where
//             anything is not finite
// and the optimizer's update, in update.cc.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"
#include "ir/state.h"

namespace tessera {
namespace {

const OutputSpec kReport = {".report", DType::kF64, {kReportSize}};

std::vector<OutputSpec> infer_report(const Attributes&, const Inputs&) { return {kReport}; }

std::vector<OutputSpec> infer_pack(const Attributes& a, const Inputs& in) {
  CHECK(in.size() == 1, "pack takes a weight");
  return {{".packed", DType::kU8, {a.integer("bytes")}}};
}

}  // namespace

ShardingRule whole(const Op& op, ValueSpan values) {
  ShardingRule r;
  const auto label = [&](ValueId v) {
    return std::string("abcdefgh").substr(0, static_cast<size_t>(values[v].shape.rank()));
  };
  for (const ValueId v : op.inputs) r.inputs.push_back(label(v));
  for (const ValueId v : op.outputs) r.outputs.push_back(label(v));
  return r;
}

const OpRule kClearRule = {.kind = OpKind::kClear,
                           .name = "clear",
                           .infer = infer_report,
                           .sharding = whole,
                           .time = TimeGroup::kOptimizer};
const OpRule kPackRule = {.kind = OpKind::kPack,
                          .name = "pack",
                          .infer = infer_pack,
                          .sharding = whole,
                          .prepared = Prepared::kProduct,
                          .time = TimeGroup::kOptimizer};
const OpRule kSquaresRule = {.kind = OpKind::kSquares,
                             .name = "squares",
                             .infer = infer_report,
                             .sharding = whole,
                             .members = MemberTables::kRanges,
                             .time = TimeGroup::kOptimizer,
                             .effects = {.flat_state = true, .adds_to_report = true}};
const OpRule kClipRule = {.kind = OpKind::kClip,
                          .name = "clip",
                          .infer = infer_report,
                          .sharding = whole,
                          .time = TimeGroup::kOptimizer,
                          .effects = {.adds_to_report = true}};

}  // namespace tessera
