#include "runtime/executor.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace tessera {
namespace {

const Position kOneRank;

constexpr int kPoison = 0xff;  // a NaN in every floating type, −1 in every integer

}  // namespace

Executor::Executor(Program program, std::byte* arena, Library& library, bool poison)
    : program_(std::move(program)), arena_(arena), library_(library), poison_(poison) {
  prepared_.resize(program_.segments.size());
  for (size_t s = 0; s < program_.segments.size(); ++s) prepare(program_.segments[s], prepared_[s]);
  find_lives();
}

Executor::Operand Executor::operand(const Segment& segment, ValueId v) const {
  if (v == kNone) return {};
  const int parameter = parameter_of(program_, segment, v);
  CHECK(parameter != kNone || program_[v].frame == kNone, "{} uses {} without its frame",
        segment.name, program_[v].name);
  return {v, parameter};
}

void Executor::prepare(const Segment& segment, std::vector<PreparedOp>& out) {
  std::vector<ValueId> added;
  for (const Op& op : segment.ops) {
    CHECK(op.inputs.size() <= kMaxInputs && op.outputs.size() <= kMaxOutputs, "{} has {} operands",
          op.origin, op.inputs.size() + op.outputs.size());
    PreparedOp p;
    p.op = &op;
    p.run = run_op(op.kind);
    for (const ValueId v : op.inputs) p.in.push_back(operand(segment, v));
    for (const ValueId v : op.outputs) {
      p.out.push_back(operand(segment, v));
      const bool first = program_[v].role == Role::kGradient &&
                         std::find(added.begin(), added.end(), v) == added.end();
      p.adds_first.push_back(first);
      if (first) added.push_back(v);
    }
    p.workspace = operand(segment, op.workspace);
    p.packed = operand(segment, op.packed);
    p.bound.op = &op;
    p.bound.position = &kOneRank;
    p.bound.values = program_.values;
    p.bound.threads = library_.threads();
    const bool product = op.kind == OpKind::kMatmul || op.kind == OpKind::kMatmulGradInput ||
                         op.kind == OpKind::kMatmulGradWeight || op.kind == OpKind::kPack;
    if (product) {
      kernels::MatmulShape shape = product_shape(op, program_.values);
      p.bound.product = &library_.product(shape);
      shape.accumulate = false;
      if (op.kind == OpKind::kMatmulGradWeight) p.bound.fresh_product = &library_.product(shape);
    }
    if (op.kind == OpKind::kLinearCrossEntropy)
      p.bound.head = &library_.head(head_shape(op, program_.values));
    out.push_back(std::move(p));
  }
}

std::byte* Executor::address(const Operand& o, const Call& call, const Segment& segment) const {
  if (o.value == kNone) return nullptr;
  const int64_t base = o.parameter == kNone
                           ? scratch_offset(program_, segment.queue)
                           : program_.frame(call.frames[static_cast<size_t>(o.parameter)]).offset;
  return arena_ + base + program_[o.value].offset;
}

void Executor::bind(PreparedOp& p, const Call& call, const Segment& segment) const {
  const auto view = [&](const Operand& o) {
    const Value& v = program_[o.value];
    return TensorView{address(o, call, segment), v.dtype, v.shape};
  };
  for (size_t i = 0; i < p.in.size(); ++i) p.bound.in[i] = view(p.in[i]);
  for (size_t i = 0; i < p.out.size(); ++i) {
    p.bound.out[i] = view(p.out[i]);
    p.bound.fresh[i] = p.adds_first[i] && p.out[i].parameter != kNone &&
                       call.fresh[static_cast<size_t>(p.out[i].parameter)];
  }
  p.bound.workspace = address(p.workspace, call, segment);
  p.bound.packed = address(p.packed, call, segment);
  p.bound.layer = call.layer;
}

void Executor::run(const std::function<void(const OpEvent&)>& observe) {
  for (size_t c = 0; c < program_.schedule.size(); ++c) {
    const Call& call = program_.schedule[c];
    const Segment& segment = program_.segment(call.segment);
    if (poison_) poison_before(c);
    for (PreparedOp& op : prepared_[static_cast<size_t>(call.segment)]) {
      bind(op, call, segment);
      op.run(op.bound);
      if (observe) observe({call, segment, op.bound});
    }
    if (poison_) poison_after(c);
  }
}

void Executor::find_lives() {
  lives_.assign(program_.frames.size(), {SIZE_MAX, 0});
  for (size_t c = 0; c < program_.schedule.size(); ++c)
    for (const FrameId f : program_.schedule[c].frames) {
      auto& [first, last] = lives_[static_cast<size_t>(f)];
      first = std::min(first, c);
      last = std::max(last, c);
    }
}

void Executor::poison_before(size_t call) const {
  const Call& c = program_.schedule[call];
  const Segment& s = program_.segment(c.segment);
  std::memset(arena_ + scratch_offset(program_, s.queue), kPoison,
              static_cast<size_t>(s.scratch_bytes));
  for (const FrameId f : c.frames)
    if (!program_.frame(f).state && lives_[static_cast<size_t>(f)].first == call)
      std::memset(arena_ + program_.frame(f).offset, kPoison,
                  static_cast<size_t>(program_.kind(program_.frame(f).kind).bytes));
}

void Executor::poison_after(size_t call) const {
  for (const FrameId f : program_.schedule[call].frames)
    if (!program_.frame(f).state && lives_[static_cast<size_t>(f)].second == call)
      std::memset(arena_ + program_.frame(f).offset, kPoison,
                  static_cast<size_t>(program_.kind(program_.frame(f).kind).bytes));
}

TensorView Executor::view(ValueId v, int64_t layer, int64_t microbatch) const {
  const Value& value = program_[v];
  for (const Frame& f : program_.frames) {
    if (f.kind != value.frame) continue;
    if (f.layer != kNone && f.layer != layer) continue;
    if (f.microbatch != kNone && f.microbatch != microbatch) continue;
    return {arena_ + f.offset + value.offset, value.dtype, value.shape};
  }
  CHECK(false, "{} (layer {}, micro-batch {}) has no frame", value.name, layer, microbatch);
}

ValueId Executor::named(std::string_view name) const {
  for (size_t i = 0; i < program_.values.size(); ++i)
    if (program_.values[i].name == name && program_.values[i].frame != kNone)
      return static_cast<ValueId>(i);
  CHECK(false, "program {} has no value {}", program_.name, name);
}

}  // namespace tessera
