#include "runtime/executor.h"

#include <algorithm>

#include "base/error.h"
#include "ir/rule.h"
#include "runtime/lead.h"

namespace tessera {

Executor::Executor(Program program, std::byte* arena, PreparedKernels& kernels,
                   const Channels& channels, ExecutorOptions options)
    : program_(std::move(program)),
      local_(local_values(program_.values)),
      arena_(arena),
      kernels_(kernels),
      channels_(channels),
      options_(std::move(options)) {
  prepare_device();
  prepared_.resize(program_.segments.size());
  for (const SegmentId s : program_.segments.ids()) prepare(program_.segments[s], prepared_[s]);
  for (const Segment& s : program_.segments)
    updates_.push_back(std::any_of(s.ops.begin(), s.ops.end(), [&](const Op& op) {
      return std::any_of(op.outputs.begin(), op.outputs.end(),
                         [&](ValueId v) { return changes_state(op, program_[v].role); });
    }));
  may_lead_ = calls_that_may_lead(program_);
  if (options_.poison) poison_.emplace(program_, Arenas{arena_, options_.host});
}

TensorView OpEvent::host(const TensorView& operand) const { return executor.fetch(operand); }
int64_t OpEvent::first_non_finite(const TensorView& operand) const {
  return executor.first_non_finite(operand);
}

PreparedOperand Executor::operand(const Segment& segment, ValueId v) const {
  if (v == kNone) return {};
  const int parameter = parameter_of(program_, segment, v);
  CHECK(parameter != kNone || program_[v].frame == kNone, "{} uses {} without its frame",
        segment.name(), program_[v].name);
  return {v, parameter};
}

void Executor::prepare_members(PreparedOp& p) const {
  const MemberTables needed = rule_of(*p.op).members;
  if (needed == MemberTables::kNothing) return;
  const FrameKindId table = members_of(p.op->attributes);
  CHECK(table != kNone, "{} names no table of weights", p.op->origin);
  const Coordinates& at = channels_.position().at;
  FlatMembers& m = p.members;
  m.ranges = member_ranges(program_, table, program_[p.op->inputs[0]], at);
  if (needed == MemberTables::kRanges) return;
  m.stretches = member_stretches(program_, m.ranges, at);
  if (needed == MemberTables::kStretches) return;
  m.factors = factor_places(program_, table);
  m.stretches = part_stretches(program_, table, m.ranges, m.stretches);
}

void Executor::prepare(const Segment& segment, std::vector<PreparedOp>& out) {
  std::vector<ValueId> added;
  for (const Op& op : segment.ops) {
    PreparedOp p;
    p.op = &op;
    p.binding = &binding_of(op.kind());
    for (const ValueId v : op.inputs) p.in.push_back(operand(segment, v));
    for (const ValueId v : op.outputs) {
      p.out.push_back(operand(segment, v));
      // Each piece of a reduction is the first of its elements.
      const bool first = program_[v].role == Role::kGradient &&
                         (is_piece(op) || std::find(added.begin(), added.end(), v) == added.end());
      p.adds_first.push_back(first);
      if (first) added.push_back(v);
    }
    p.workspace = operand(segment, op.workspace);
    p.packed = operand(segment, op.packed);
    p.bound.op = &op;
    p.bound.inputs.resize(op.inputs.size());
    p.bound.outputs.resize(op.outputs.size());
    p.bound.fresh.resize(op.outputs.size());
    p.bound.position = &channels_.position();
    p.bound.values = program_.values;
    p.bound.launch.threads = kernels_.threads();
    p.bound.kernels = &kernels_.table();
    p.bound.prepared = kernels_.prepared(op, local_);
    if (device_) p.bound.launch.stream = device_->queues.stream(segment.queue);
    p.bound.host_step = host_step_;
    prepare_members(p);
    if (communicates(op)) {
      p.bound.channel = &channels_.of(op, segment.queue, program_);
      const std::pair<GroupRef, Communicator*> use = {group_of(op), p.bound.channel};
      if (std::find(used_.begin(), used_.end(), use) == used_.end()) used_.push_back(use);
      if (device_ && p.is_on_stream()) device_->marks.use(segment.queue);
    }
    out.push_back(std::move(p));
  }
}

std::byte* Executor::frame(FrameId f) const {
  return Arenas{arena_, options_.host}.frame(program_, f);
}

std::byte* Executor::address(const PreparedOperand& o, const Call& call,
                             const Segment& segment) const {
  if (o.value == kNone) return nullptr;
  std::byte* const base = o.parameter == kNone
                              ? arena_ + scratch_offset(program_, segment.queue)
                              : frame(call.frames[static_cast<size_t>(o.parameter)]);
  const Value& v = program_[o.value];
  const int64_t own = v.own ? channels_.position().at[AxisKind::kShard] * v.bytes() : 0;
  return base + v.offset + own;
}

void Executor::bind(PreparedOp& p, const Call& call, const Segment& segment) const {
  const auto view = [&](const PreparedOperand& o) {
    const Value& v = local_[o.value];
    return TensorView{address(o, call, segment), v.dtype, v.shape};
  };
  for (size_t i = 0; i < p.in.size(); ++i) p.bound.inputs[i] = view(p.in[i]);
  for (size_t i = 0; i < p.out.size(); ++i) {
    p.bound.outputs[i] = view(p.out[i]);
    // What is no sum of several calls is written anew.
    p.bound.fresh[i] = program_[p.out[i].value].role != Role::kGradient ||
                       (p.adds_first[i] && p.out[i].parameter != kNone &&
                        call.fresh[static_cast<size_t>(p.out[i].parameter)]);
  }
  p.bound.launch.workspace = address(p.workspace, call, segment);
  p.bound.packed = address(p.packed, call, segment);
  p.bound.members = &p.members;
  p.bound.layer = call.layer;
  if (is_message(*p.op)) p.bound.peer = channels_.peer(*p.bound.channel, call.wire.peer);
}

TensorView Executor::view(ValueId v, int64_t layer, int64_t microbatch) const {
  const Value& value = program_[v];
  for (const Frame& f : program_.frames) {
    if (f.kind != value.frame) continue;
    if (f.layer != kNone && f.layer != layer) continue;
    if (f.microbatch != kNone && f.microbatch != microbatch) continue;
    return mirrored({arena_ + f.offset + value.offset, value.dtype, value.local()});
  }
  CHECK(false, "{} (layer {}, micro-batch {}) has no frame", value.name, layer, microbatch);
}

ValueId Executor::find(Role role) const {
  for (const ValueId v : program_.values.ids())
    if (program_[v].role == role && program_[v].frame != kNone) return v;
  return kNone;
}

ValueId Executor::only(Role role) const {
  const ValueId v = find(role);
  CHECK(v != kNone, "program {} has no value {}", program_.name, value_name(role));
  return v;
}

}  // namespace tessera
