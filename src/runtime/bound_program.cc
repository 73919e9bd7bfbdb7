// Prepares the ops of a program once (kernels, channels, tables of weights), and binds them to the
// buffers of a call: address = arena + offset of the buffer + offset of the value, plus the offset
// of this rank's shard if the value is a local shard. Binding only writes pointers, so a call
// allocates nothing.
#include "runtime/bound_program.h"

#include <algorithm>

#include "base/error.h"
#include "ir/chunk.h"
#include "ir/rule.h"

namespace tessera::runtime {

namespace {

PreparedOperand operand_of(const Program& program, const Segment& segment, ValueId v) {
  if (v == kNone) return {};
  const int parameter = parameter_of(program, segment, v);
  CHECK(parameter != kNone || program[v].buffer == kNone, "{} uses {} without its buffer",
        segment.name(), program[v].name);
  return {v, parameter};
}

bool is_host_state(const Program& p, BufferKindId kind) {
  return kind != kNone && p.kind(kind).state && p.kind(kind).host;
}

// Returns Muon's directions, which an op writes or reads.
ValueId directions_of(const Op& op) {
  return op.is<MuonDirection>() ? output(op, MuonDirection::kDirections)
                                : input(op, Muon::kDirections);
}

// Copying state to the host counts, because saves read the host's copy; copying it to the device
// does not.
bool updates_state(const Program& p, const Op& op) {
  return std::any_of(op.outputs.begin(), op.outputs.end(), [&](ValueId v) {
    return changes_state(op, p[v].role) || is_host_state(p, p[v].buffer);
  });
}

}  // namespace

BoundProgram::BoundProgram(Program program, const ProgramMemory& memory, PreparedKernels& kernels,
                           const CommunicatorMap& communicators)
    : program_(std::move(program)),
      local_(local_values(program_.values)),
      memory_(memory),
      kernels_(kernels),
      communicators_(communicators) {
  prepared_.resize(program_.segments.size());
  for (const SegmentId s : program_.segments.ids()) prepare(program_.segments[s], prepared_[s]);
  for (const Segment& s : program_.segments)
    updates_.push_back(std::any_of(s.ops.begin(), s.ops.end(),
                                   [&](const Op& op) { return updates_state(program_, op); }));
}

// Builds the tables that the rule of the op needs. Each extends the previous one: ranges of a flat
// buffer by weight, then their contiguous runs in the weight, then rows and columns for Adafactor
// or matrices for Muon.
void BoundProgram::prepare_members(PreparedOp& p) const {
  const MemberTables needed = rule_of(*p.op).members;
  if (needed == MemberTables::kNothing) return;
  const BufferKindId table = members_of(p.op->attributes);
  CHECK(table != kNone, "{} has no table of weights", p.op->origin);
  const Coordinates& at = communicators_.position().at;
  FlatMembers& m = p.members;
  m.ranges = member_ranges(program_, table, program_[p.op->inputs[0]], at);
  if (needed == MemberTables::kRanges) return;
  m.runs = member_runs(program_, m.ranges, at);
  if (needed == MemberTables::kRuns) return;
  m.runs = part_runs(program_, table, m.ranges, m.runs);
  if (needed == MemberTables::kFactors)
    m.factors = factored_moment_ranges(program_, table);
  else
    m.matrices = matrix_ranges(program_, program_[directions_of(*p.op)].buffer, at);
}

void BoundProgram::prepare(const Segment& segment, std::vector<PreparedOp>& out) {
  std::vector<ValueId> added;
  for (const Op& op : segment.ops) {
    PreparedOp p;
    p.op = &op;
    p.binding = &binding_of(op.kind());
    for (const ValueId v : op.inputs) p.in.push_back(operand_of(program_, segment, v));
    for (const ValueId v : op.outputs) {
      p.out.push_back(operand_of(program_, segment, v));
      // Within a call, only the first op that adds to a gradient may overwrite it. The pieces of a
      // reduction cover different elements, so each of them is the first.
      const bool first = is_of_step(program_[v].role) &&
                         (is_piece(op) || std::find(added.begin(), added.end(), v) == added.end());
      p.adds_first.push_back(first);
      if (first) added.push_back(v);
    }
    if (!op.chunk.is_whole()) take_chunk(op, p);
    p.workspace = operand_of(program_, segment, op.workspace);
    p.packed = operand_of(program_, segment, op.packed);
    p.bound.op = &op;
    p.bound.inputs.resize(op.inputs.size());
    p.bound.outputs.resize(op.outputs.size());
    p.bound.fresh.resize(op.outputs.size());
    p.bound.position = &communicators_.position();
    p.bound.values = program_.values;
    p.bound.launch.threads = kernels_.backend().threads();
    p.bound.kernels = &kernels_.table();
    p.bound.prepared = kernels_.prepared(op, local_);
    prepare_members(p);
    if (communicates(op)) prepare_channel(op, queue_of(op, segment.queue), p.bound);
    out.push_back(std::move(p));
  }
}

void BoundProgram::take_chunk(const Op& op, PreparedOp& p) const {
  const std::optional<ChunkedOperands> chunked = chunked_operands(op, local_);
  CHECK(chunked, "{} cannot be computed in chunks", op.origin);
  for (size_t i = 0; i < p.in.size(); ++i)
    if (chunked->inputs[i]) p.in[i].chunk = op.chunk;
  for (PreparedOperand& o : p.out) o.chunk = op.chunk;
}

void BoundProgram::prepare_channel(const Op& op, Queue queue, BoundOp& bound) {
  bound.channel = &communicators_.of(op, queue, program_);
  const std::pair<GroupRef, comm::Communicator*> use = {group_of(op), bound.channel};
  if (std::find(used_.begin(), used_.end(), use) == used_.end()) used_.push_back(use);
}

void BoundProgram::use_streams(const std::function<Stream(Queue)>& stream_of, const double* step) {
  for (const SegmentId s : program_.segments.ids())
    for (PreparedOp& op : prepared_[s]) {
      op.bound.launch.stream = stream_of(queue_of(*op.op, program_.segments[s].queue));
      op.bound.host_step = step;
    }
}

// Values without a buffer are in the scratch memory of the segment's queue.
std::byte* BoundProgram::address(const PreparedOperand& o, const Call& call,
                                 const Segment& segment) const {
  if (o.value == kNone) return nullptr;
  std::byte* const base = o.parameter == kNone
                              ? memory_.arena.data() + scratch_offset(program_, segment.queue)
                              : arenas().buffer(program_, call.buffers[o.parameter]);
  const Value& v = program_[o.value];
  const RankPosition& at = communicators_.position();
  const int64_t own = v.is_local_shard ? state_shard(at.mesh, at.at) * v.bytes() : 0;
  return base + v.offset + own;
}

void BoundProgram::bind(CallId c) {
  for (PreparedOp& p : ops(c)) bind(p, program_.call(c), program_.segment(program_.call(c)));
}

void BoundProgram::bind(PreparedOp& p, const Call& call, const Segment& segment) const {
  const auto view = [&](const PreparedOperand& o) {
    const Value& v = local_[o.value];
    const TensorView whole = {address(o, call, segment), v.dtype, v.shape};
    return o.chunk.is_whole() ? whole : chunk_of(whole, o.chunk);
  };
  for (size_t i = 0; i < p.in.size(); ++i) p.bound.inputs[i] = view(p.in[i]);
  for (size_t i = 0; i < p.out.size(); ++i) {
    p.bound.outputs[i] = view(p.out[i]);
    // Outputs that do not accumulate over calls are always overwritten.
    p.bound.fresh[i] =
        !is_of_step(program_[p.out[i].value].role) ||
        (p.adds_first[i] && p.out[i].parameter != kNone && call.first_write[p.out[i].parameter]);
  }
  p.bound.launch.workspace = address(p.workspace, call, segment);
  p.bound.packed = address(p.packed, call, segment);
  p.bound.members = &p.members;
  p.bound.layer = call.layer;
  if (is_message(*p.op)) p.bound.peer = communicators_.peer(*p.bound.channel, call.comm.peer);
}

std::byte* BoundProgram::device_address(ValueId v, int64_t layer, int64_t microbatch) const {
  const Value& value = program_[v];
  for (const Buffer& f : program_.buffers) {
    if (f.kind != value.buffer) continue;
    if (f.layer != kNone && f.layer != layer) continue;
    if (f.microbatch != kNone && f.microbatch != microbatch) continue;
    return memory_.arena.data() + f.offset + value.offset;
  }
  CHECK(false, "{} (layer {}, micro-batch {}) has no buffer", value.name, layer, microbatch);
}

TensorView BoundProgram::view(ValueId v, int64_t layer, int64_t microbatch) const {
  const Value& value = program_[v];
  return memory_.arena.host({device_address(v, layer, microbatch), value.dtype, value.local()});
}

ValueId BoundProgram::find(Role role) const {
  for (const ValueId v : program_.values.ids())
    if (program_[v].role == role && program_[v].buffer != kNone) return v;
  return kNone;
}

ValueId BoundProgram::only(Role role) const {
  const ValueId v = find(role);
  CHECK(v != kNone, "program {} has no value {}", program_.name, value_name(role));
  return v;
}

// Several queues may have their own communicators for one group; their bytes are added.
std::map<GroupRef, int64_t> BoundProgram::bytes_sent() const {
  std::map<GroupRef, int64_t> sent;
  for (const auto& [group, channel] : used_) sent[group] += channel->bytes_sent();
  return sent;
}

GroupRef BoundProgram::group_of_call(CallId c) const {
  for (const PreparedOp& op : ops(c))
    if (op.bound.channel) return group_of(*op.op);
  return {};
}

}  // namespace tessera::runtime
