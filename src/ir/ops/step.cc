// Rules of ops that prepare or use the step's report and state.
#include "base/error.h"
#include "ir/builder.h"
#include "ir/ops/rules.h"
#include "ir/state.h"

namespace tessera {
namespace {

const OutputSpec kReport = {".report", DType::kF64, {kReportSize}};

std::vector<OutputSpec> infer_report(const Op&, const Inputs&) { return {kReport}; }

std::vector<OutputSpec> infer_pack(const Op& op, const Inputs& in) {
  CHECK(in.size() == 1, "pack expects a weight");
  return {{".packed", DType::kU8, {op.as<Pack>().bytes}}};
}

}  // namespace

ShardingRule whole(const Op& op, ValueSpan values) {
  ShardingRule r;
  const auto label = [&](ValueId v) {
    return std::string("abcdefgh").substr(0, values[v].shape.rank());
  };
  for (const ValueId v : op.inputs) r.inputs.push_back(label(v));
  for (const ValueId v : op.outputs) r.outputs.push_back(label(v));
  return r;
}

const OpRule Clear::rule = {
    .infer = infer_report, .sharding = whole, .time = TimeGroup::kOptimizer};
const OpRule Pack::rule = {.infer = infer_pack,
                           .sharding = whole,
                           .prepared = Prepared::kProduct,
                           .time = TimeGroup::kOptimizer};
const OpRule Squares::rule = {.infer = infer_report,
                              .sharding = whole,
                              .members = MemberTables::kRanges,
                              .time = TimeGroup::kOptimizer,
                              .effects = {.flat_state = true, .adds_to_report = true}};
const OpRule Clip::rule = {.infer = infer_report,
                           .sharding = whole,
                           .time = TimeGroup::kOptimizer,
                           .effects = {.adds_to_report = true}};

}  // namespace tessera
