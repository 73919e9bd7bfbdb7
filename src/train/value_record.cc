// Records digests of all values of a step (value_record.h has the mathematics: random signs, as in
// the AMS sketch of Alon, Matias & Szegedy 1996).
//
// The difficulty is naming. A value must have the same key on every layout, although layouts differ
// in sharding, conversions, recomputation and the order of sums. Conversions keep the key of their
// input, recomputed values the key of the original, and values without a counterpart are not
// recorded.
#include "train/value_record.h"

#include <algorithm>
#include <cstdlib>
#include <sstream>

#include "base/error.h"
#include "base/philox.h"
#include "ir/names.h"
#include "ir/rule.h"

namespace tessera::train {
namespace {

// Returns a 64-bit hash (the finalizer of splitmix64), which has the signs of an element in all
// sums.
uint64_t mixed(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

template <class T>
void add_row(ValueDigest& d, const T* x, int64_t n, uint64_t first, double minus_infinity) {
  for (int64_t i = 0; i < n; ++i) {
    // The index is that of the global value, so shards on different ranks use the same signs.
    const uint64_t signs = mixed(first + i);
    auto value = static_cast<double>(static_cast<float>(x[i]));
    if (value == -std::numeric_limits<double>::infinity()) value = minus_infinity;
    for (size_t k = 0; k < kDigestSums; ++k) d.sums[k] += ((signs >> k) & 1u) != 0 ? value : -value;
    d.squares += value * value;
  }
  d.elements += n;
}

// Replaces a masked score in digests. It has the size of large scores, so that all masked scores
// together do not hide the differences of the others.
constexpr double kMaskedScore = -4;

bool is_float(DType t) { return t == DType::kF32 || t == DType::kBF16 || t == DType::kF16; }

// Returns true for a pending maximum over shards. It is not a sum, so its digests do not add up.
bool is_maximum(const Value& v) {
  return std::count(v.sharding.place.begin(), v.sharding.place.end(), kPartialMax) > 0;
}

// Returns the pass that a segment belongs to. Forward and backward have values of the same name,
// such as those of RoPE. A recomputed forward has the values of the original one.
std::string_view pass_of(const Segment& s) {
  if (s.phase == Phase::kForward || s.phase == Phase::kForwardNoSave ||
      s.phase == Phase::kRecompute)
    return "forward";
  return s.phase == Phase::kJoint || s.subject.empty() ? "head" : "backward";
}

// Returns true if v is a sum of terms of a gradient that the op computes. The gradient of the input
// of a block is excluded, because it has its own name.
bool is_gradient_sum(const Program& p, const Op& op, ValueId v) {
  const Sum* const sum = op.if_as<Sum>();
  return sum != nullptr && sum->of_gradients && v == op.outputs[0] &&
         p[v].role != Role::kHiddenGradient;
}

// Returns the name of a value in a call. Values of a forward pass that will be recomputed, and
// recomputed values, have the name of the original.
std::string name_in(const Program& p, ValueId v, const Call& c) {
  const CopyKind copy = p[v].copy;
  if (copy == CopyKind::kNoSave || copy == CopyKind::kRecomputed) v = p[v].of;
  return c.layer == kNone ? p[v].name : full_name(p[v], c.layer);
}

}  // namespace

void ValueDigest::add(const TensorView& part, const Shape& global, std::span<const int64_t> begin,
                      std::span<const int64_t> end, uint64_t name, double minus_infinity) {
  const int rank = global.rank();
  const uint64_t key = mixed(name);
  const int64_t row = rank == 0 ? 1 : end[rank - 1] - begin[rank - 1];
  if (row <= 0) return;
  // Visits the box row by row: `to` is an index in the global value, `from` in the local one.
  const std::function<void(int, int64_t, int64_t)> walk = [&](int d, int64_t to, int64_t from) {
    if (d >= rank - 1) {
      if (rank > 0) {
        to = to * global[d] + begin[d];
        from *= part.shape[d];
      }
      const uint64_t first = key + to;
      if (part.dtype == DType::kF32)
        add_row(*this, part.f32() + from, row, first, minus_infinity);
      else if (part.dtype == DType::kF16)
        add_row(*this, part.as<F16>() + from, row, first, minus_infinity);
      else if (part.dtype == DType::kU8)
        add_row(*this, part.as<uint8_t>() + from, row, first, minus_infinity);
      else
        add_row(*this, part.bf16() + from, row, first, minus_infinity);
      return;
    }
    const size_t i = d;
    for (int64_t k = begin[i]; k < end[i]; ++k)
      walk(d + 1, to * global[d] + k, from * part.shape[d] + k - begin[i]);
  };
  walk(0, 0, 0);
}

namespace {

// Adds this rank's shard of a value to a digest. Each element has the index that it has in the
// whole value, even if the tokens of the rank are two ranges of a sequence (ContextCut::kZigzag).
void add_shard(ValueDigest& d, const TensorView& view, const Value& value,
               const runtime::RankPosition& position, uint64_t name, double minus_infinity) {
  const GlobalBox box = global_box_of(value, position.mesh, position.at);
  if (value.sharding.cut != ContextCut::kZigzag)
    return d.add(view, value.shape, box.begin, box.end, name, minus_infinity);
  const int tokens = value.sharding.place[AxisKind::kContext];
  const Shape& local = view.shape;
  const int64_t token = local.product(tokens + 1, local.rank());
  for (const TokenRange& r : token_ranges(value, position.mesh, box))
    for (int64_t row = 0; row < local.product(0, tokens); ++row) {
      GlobalBox part = box;
      int64_t rest = row;  // the number of the row in the dimensions before the tokens
      for (int i = tokens - 1; i >= 0; --i) {
        part.begin[i] += rest % local[i];
        part.end[i] = part.begin[i] + 1;
        rest /= local[i];
      }
      part.begin[tokens] = r.first;
      part.end[tokens] = r.first + r.count;
      const int64_t first = (row * local[tokens] + r.local) * token;
      d.add({view.at(first), view.dtype, local}, value.shape, part.begin, part.end, name,
            minus_infinity);
    }
}

}  // namespace

ValueRecorder::ValueRecorder(const Program& program, const runtime::RankPosition& position)
    : program_(program),
      live_(live_values(program)),
      position_(position),
      all_{position.mesh, position.at, {}} {
  bool copies = false;
  for (const Segment& s : program.segments)
    for (const Op& op : s.ops) copies |= op.is<RepeatHeads>();
  if (!copies) return;
  for (const Segment& s : program.segments)
    for (const Op& op : s.ops)
      if (op.is<JoinHeads>()) copied_heads_ = program[op.outputs[0]].shape;
}

std::function<void(const runtime::OpEvent&)> ValueRecorder::observer(int64_t step) {
  step_ = step;
  call_ = nullptr;
  made_.clear();
  return [this](const runtime::OpEvent& e) { observe(e); };
}

// Returns the name of an op's output. Sums of gradient terms have the same name in all blocks and
// layers, so the name of their last term is appended, which is a term of only one sum.
std::string ValueRecorder::name_of(const runtime::OpEvent& e, ValueId v) const {
  const std::string name = name_in(program_, v, e.call);
  const Op& op = *e.op.op;
  if (!is_gradient_sum(program_, op, v)) return name;
  const auto last = known_.find(op.inputs.back());
  return last == known_.end() ? name : name + " with " + last->second.name;
}

ValueRecorder::Known ValueRecorder::known_of(const runtime::OpEvent& e, const std::string& what,
                                             ValueId v) const {
  const bool all = program_[v].role == Role::kWeight;  // the same for all micro-batches
  const std::string name = name_of(e, v);
  return {fmt::format("{}|{}|{}|{}|{}", step_, what, all ? "weight" : pass_of(e.segment), name,
                      all ? kNone : e.call.microbatch),
          name};
}

// Returns the key of an output. Forward and backward of the LM head are one call and may have two
// ops of the same name, so repeated keys are numbered.
ValueRecorder::Known ValueRecorder::made_of(const runtime::OpEvent& e, const std::string& what,
                                            ValueId v) {
  Known known = known_of(e, what, v);
  if (const int64_t before = times_made_[known.key]++; before > 0)
    known.key += fmt::format("|{}", before + 1);
  return known;
}

void ValueRecorder::record(const runtime::OpEvent& e, ValueId v, const TensorView& view,
                           Known known, const std::string& what) {
  const Value& value = program_[v];
  known_[v] = known;
  if (!is_float(value.dtype) || is_maximum(value) || value.shape == copied_heads_) return;
  ValueRecord r;
  r.place = value.sharding;
  r.told = fmt::format("{} ({}), {}", known.name, what, e.segment.name());
  if (e.call.microbatch != kNone) r.told += fmt::format(", micro-batch {}", e.call.microbatch);
  const bool masks = rule_of(*e.op.op).effects.may_be_infinite;
  add_shard(r.digest, view, value, position_, hash_name(known.key),
            masks ? kMaskedScore : -std::numeric_limits<double>::infinity());
  r.key = std::move(known.key);
  all_.records.push_back(std::move(r));
}

// Returns a view of all sequences of a value that the op reads in chunks.
TensorView ValueRecorder::all_of(const runtime::OpEvent& e, ValueId v,
                                 const TensorView& view) const {
  return view.shape == program_[v].local() ? view : runtime::whole_of(view, e.op.op->chunk);
}

// Records inputs from other calls: hidden states, and weights as they are read.
void ValueRecorder::arrivals(const runtime::OpEvent& e) {
  for (size_t i = 0; i < e.op.op->inputs.size(); ++i) {
    const ValueId v = e.op.op->inputs[i];
    if (v == kNone || known_.contains(v)) continue;
    const Role role = program_[v].role;
    if (role == Role::kWeight)
      record(e, v, e.host(e.op.inputs[i]), known_of(e, "read", v), "weight as it is read");
    else if (role == Role::kHidden || role == Role::kHiddenGradient)
      record(e, v, e.host(all_of(e, v, e.op.inputs[i])), known_of(e, "arrives", v),
             "as it arrives");
  }
}

// Returns true if a sum has a term of an adapter, or a term that is such a sum. With sequence
// parallelism, the terms of an adapter's input gradient are summed in another order, because the
// adapter reads its input before the all-gather and its GEMM runs after it. Only the total is the
// same on all layouts.
bool ValueRecorder::sums_adapters(const Op& op) const {
  return std::any_of(op.inputs.begin(), op.inputs.end(), [&](ValueId v) {
    const auto term = known_.find(v);
    return term == known_.end() || term->second.name.find(".lora_") != std::string::npos;
  });
}

void ValueRecorder::output(const runtime::OpEvent& e, size_t i) {
  const Op& op = *e.op.op;
  const ValueId v = op.outputs[i];
  if (v == kNone) return;
  const Value& value = program_[v];
  const std::string name(tessera::name_of(op.kind()));
  if (value.role == Role::kGradient)
    made_[name_in(program_, v, e.call)] = {std::ssize(all_.records),
                                           fmt::format("{} of {}", name, op.origin)};
  // Measures of a rank's own shard are compared after the sum over ranks.
  const bool is_part = rule_of(op).effects.measures_part && i + 1 == op.outputs.size();
  if (!is_computed(value.role) || !live_[v] || is_part) return;
  if (rule_of(op).effects.writes_part) return;     // recorded after the op that completes it
  if (++chunks_made_[v] < op.chunk.count) return;  // recorded after the last chunk
  if (is_gradient_sum(program_, op, v) && sums_adapters(op)) return;
  std::string what = name;
  if (const GroupRef* const over = over_of(op.attributes)) what += " over " + to_string(*over);
  if (!rule_of(op).effects.converts)
    return record(e, v, e.host(all_of(e, v, e.op.outputs[i])), made_of(e, name, v), what);
  // A conversion does not change the value, so it is recorded with the key of its input.
  if (const auto root = known_.find(op.inputs[0]); root != known_.end())
    record(e, v, e.host(all_of(e, v, e.op.outputs[i])), root->second, what);
}

void ValueRecorder::observe(const runtime::OpEvent& e) {
  if (e.segment.queue != Queue::kCompute) return;
  // In another call (another layer or micro-batch), the same id refers to another value.
  if (call_ != &e.call) known_.clear(), times_made_.clear(), chunks_made_.clear();
  call_ = &e.call;
  // The order of flat state depends on the layout, so its values have no counterpart.
  if (!rule_of(*e.op.op).effects.flat_state) arrivals(e);
  for (size_t i = 0; i < e.op.op->outputs.size(); ++i) output(e, i);
}

void ValueRecorder::own(std::span<const checkpoint::StateTensor> pieces, const std::string& what) {
  std::map<std::string, ValueRecord> by_name;
  std::vector<std::byte> computed;
  // In the order in which ops computed the gradients, so that the first difference is the earliest.
  std::vector<std::pair<int64_t, std::string>> order;
  for (const checkpoint::StateTensor& t : pieces) {
    const auto [at, first] = by_name.try_emplace(t.name);
    ValueRecord& r = at->second;
    if (first) {
      r.key = fmt::format("{}|{}|{}", step_, what, t.name);
      r.told = fmt::format("{} of {}", what, t.name);
      r.place.place.fill(kPartial);  // each element belongs to one rank, so digests add up
      const auto made = made_.find(t.name + ".gradient");
      if (made != made_.end()) r.told += fmt::format(" ({})", made->second.by);
      order.emplace_back(made != made_.end() ? made->second.order : 0, t.name);
    }
    std::vector<int64_t> begin = t.begin, end = t.end;
    if (begin.empty()) {
      begin.assign(t.shape.dims().size(), 0);
      end.assign(t.shape.dims().begin(), t.shape.dims().end());
    }
    r.digest.add(checkpoint::data_of(t, computed), t.shape, begin, end, hash_name(r.key));
  }
  std::sort(order.begin(), order.end());
  for (const auto& [at, name] : order) all_.records.push_back(std::move(by_name.at(name)));
}

void ValueRecorder::finish(std::span<const checkpoint::StateTensor> gradients,
                           std::span<const checkpoint::StateTensor> state) {
  own(gradients, "gradient");
  made_.clear();
  own(state, "state");
}

// Writes tab-separated text: mesh and coordinates in the first line, then one record per line. fmt
// prints doubles in the shortest form that reads back exactly.
std::string to_text(const RankRecords& all) {
  std::string text;
  for (const AxisKind a : Enumerators<AxisKind>())
    text += fmt::format("{} {} ", all.mesh.size[a], all.at.at[a]);
  text += "\n";
  for (const ValueRecord& r : all.records) {
    text += fmt::format("{}\t{}\t", r.key, r.told);
    for (const int8_t place : r.place.place) text += fmt::format("{} ", place);
    text += fmt::format("{} {}", r.digest.squares, r.digest.elements);
    for (const double sum : r.digest.sums) text += fmt::format(" {}", sum);
    text += "\n";
  }
  return text;
}

RankRecords parse_records(const std::string& text, const std::string& source) {
  std::istringstream lines(text);
  RankRecords all;
  std::string line;
  std::getline(lines, line);
  std::istringstream mesh(line);
  for (const AxisKind a : Enumerators<AxisKind>()) mesh >> all.mesh.size[a] >> all.at.at[a];
  bool good = static_cast<bool>(mesh);
  while (good && std::getline(lines, line)) {
    const size_t key = line.find('\t'), told = line.find('\t', key + 1);
    good = told != std::string::npos;
    if (!good) break;
    ValueRecord r;
    r.key = line.substr(0, key);
    r.told = line.substr(key + 1, told - key - 1);
    std::istringstream numbers(line.substr(told + 1));
    const auto number = [&] {  // strtod also reads NaN, which a stream does not
      std::string word;
      good = good && numbers >> word;
      return std::strtod(word.c_str(), nullptr);
    };
    for (int8_t& place : r.place.place) place = static_cast<int8_t>(number());
    r.digest.squares = number();
    r.digest.elements = static_cast<int64_t>(number());
    for (double& sum : r.digest.sums) sum = number();
    all.records.push_back(std::move(r));
  }
  if (!good) throw Error("{}: not a file of value records (run.dump_values).", source);
  return all;
}

// Marks the values that are in a buffer that outlives its segment, and the inputs of all ops.
IdVector<ValueId, bool> live_values(const Program& program) {
  IdVector<ValueId, bool> live(program.values.size(), false);
  for (const ValueId v : live.ids()) live[v] = program.values[v].buffer != kNone;
  for (const Segment& s : program.segments)
    for (const Op& op : s.ops)
      for (const ValueId v : op.inputs)
        if (v != kNone) live[v] = true;
  return live;
}

}  // namespace tessera::train
