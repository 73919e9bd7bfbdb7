// Ops of one segment on several queues: waits, scratch and the race check, on random segments and
// on those of compiled layers. Each is executed in random orders with ops that overlap in time.
#include <gtest/gtest.h>

#include <numeric>

#include "compile/compile.h"
#include "compile/lower/scratch.h"
#include "ir/op_order.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "ir/rule.h"
#include "ir/verify.h"
#include "model/presets.h"
#include "tests/compile/segment_machine.h"

namespace tessera::compile {
namespace {

using testing::DataFlow;
using testing::SegmentMachine;

std::vector<size_t> in_order(size_t n) {
  std::vector<size_t> names(n);
  std::iota(names.begin(), names.end(), size_t{0});
  return names;
}

int64_t wrong_reads(const Program& p, const Segment& s, const DataFlow& flow,
                    const std::vector<size_t>& names, int orders, uint64_t seed) {
  int64_t wrong = 0;
  for (int k = 0; k < orders; ++k)
    wrong +=
        SegmentMachine(s.ops, p.values, flow, names, seed * 1000 + static_cast<uint64_t>(k)).run();
  return wrong;
}

// A segment of 3 to 40 ops on the compute queue and, of up to two of three ops, on one of the inner
// queues. Some are cut into chunks, some add to a value that others add to, some have a workspace.
class RandomSegment {
 public:
  explicit RandomSegment(uint64_t seed) : random_(seed) {}

  Program make() {
    const int64_t count = number(3, 40), inner_share = number(0, 2);
    for (int64_t k = 0; k < 2; ++k) inputs_.push_back(in_buffer(add_value()));
    for (int64_t k = 0; k < 2; ++k) sums_.push_back(in_buffer(add_value()));
    Segment s;
    for (int64_t i = 0; i < count; ++i) add_op(s, inner_share);
    p_.segments.push_back(std::move(s));
    return std::move(p_);
  }

 private:
  int64_t number(int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random_);
  }
  ValueId add_value() {
    Value v;
    v.name = "v" + std::to_string(p_.values.size());
    v.shape = {4, 4 * number(1, 6)};
    v.role = Role::kScratch;
    return p_.values.push_back(std::move(v));
  }
  // What is there before the segment.
  ValueId in_buffer(ValueId x) {
    p_.values[x].buffer = BufferKindId(0);
    p_.values[x].offset = buffer_bytes_;
    buffer_bytes_ += p_.values[x].bytes();
    return x;
  }
  ValueId like(ValueId x) {
    Value v = p_.values[x];
    v.buffer = kNone;
    v.offset = kNone;
    v.name = "v" + std::to_string(p_.values.size());
    return p_.values.push_back(std::move(v));
  }

  void add_op(Segment& s, int64_t inner_share) {
    Op op;
    const bool inner = number(0, 2) < inner_share;
    // Recent values are read more often, so most die soon.
    const auto any = [&] {
      const int64_t last = static_cast<int64_t>(made_.size()) - 1;
      return last < 0 || number(0, 4) == 0
                 ? inputs_[static_cast<size_t>(number(0, 1))]
                 : made_[static_cast<size_t>(std::max<int64_t>(0, last - number(0, 5)))];
    };
    const ValueId x = any();
    op.inputs = {x};
    op.origin = "op" + std::to_string(s.ops.size());
    if (inner) {
      op.attributes = AllReduce{.over = GroupRef::along({AxisKind::kTensor})};
      op.queue = number(0, 2) > 0 ? Queue::kTensor : Queue::kExpert;
    } else {
      op.attributes = Sum{.terms = 1};
      if (number(0, 2) == 0) op.inputs.push_back(any());
      if (p_.values[op.inputs.back()].shape != p_.values[x].shape) op.inputs.resize(1);
      op.as<Sum>().terms = static_cast<int64_t>(op.inputs.size());
    }
    const bool adds = number(0, 5) == 0;
    op.outputs = {adds ? sums_[static_cast<size_t>(number(0, 1))] : like(x)};
    if (adds) op.inputs.push_back(op.outputs[0]);
    if (adds && !inner) op.attributes = Accumulate{};
    if (number(0, 3) == 0) op.workspace = add_value();
    if (!adds) made_.push_back(op.outputs[0]);
    const int32_t chunks = adds || number(0, 2) > 0 ? 1 : static_cast<int32_t>(2 * number(1, 2));
    for (int32_t k = 0; k < chunks; ++k) {
      op.chunk = {k, chunks};
      if (k > 0 && op.workspace != kNone) op.workspace = add_value();
      s.ops.push_back(op);
    }
  }

  Program p_;
  std::mt19937_64 random_;
  std::vector<ValueId> inputs_, sums_, made_;
  int64_t buffer_bytes_ = 0;
};

constexpr uint64_t kSegments = 4000;

TEST(InnerQueues, RandomSegmentsReadWhatTheyMean) {
  int64_t with_waits = 0;
  for (uint64_t seed = 0; seed < kSegments; ++seed) {
    Program p = RandomSegment(seed).make();
    Segment& s = p.segments[SegmentId(0)];
    find_op_waits(s.ops, p.values);
    layout_scratch(p, s, 64);
    with_waits +=
        std::any_of(s.ops.begin(), s.ops.end(), [](const Op& op) { return !op.after.empty(); });
    const DataFlow flow(s.ops, p.values);
    ASSERT_EQ(wrong_reads(p, s, flow, in_order(s.ops.size()), 3, seed), 0) << "seed " << seed;
    const std::vector<std::string> races = verify_races(p, s);
    ASSERT_TRUE(races.empty()) << "seed " << seed << ": " << races.front();
  }
  EXPECT_GT(with_waits, static_cast<int64_t>(kSegments) / 2);
}

// The layout as if all ops were on one queue: values that share bytes are then ordered by the list
// alone, which is wrong on several queues.
TEST(InnerQueues, ALayoutWithoutClocksIsWrongOnSeveralQueues) {
  int64_t wrong = 0, missed = 0;
  for (uint64_t seed = 0; seed < kSegments; ++seed) {
    Program p = RandomSegment(seed).make();
    Segment& s = p.segments[SegmentId(0)];
    find_op_waits(s.ops, p.values);
    Segment one_queue = s;
    for (Op& op : one_queue.ops) op.queue = Queue::kCompute, op.after.clear();
    layout_scratch(p, one_queue, 64);
    const DataFlow flow(s.ops, p.values);
    const bool fails = wrong_reads(p, s, flow, in_order(s.ops.size()), 3, seed) > 0;
    wrong += fails;
    missed += fails && verify_races(p, s).empty();
  }
  EXPECT_GT(wrong, static_cast<int64_t>(kSegments) / 4);
  EXPECT_EQ(missed, 0);
}

CompileRequest overlapped_request(model::Family family) {
  CompileRequest r;
  model::apply_family(family, r.model);
  r.model.layers = 1;
  r.model.hidden = 32;
  r.model.heads = 4;
  r.model.vocabulary = r.model.vocabulary_multiple = 32;
  r.model.context = 8;
  model::derive_sizes(r.model);
  r.tokens = 8;
  r.sequences = 4;
  r.layout.tensor = 2;
  r.options.tp_comm_overlap = true;
  r.options.tp_comm_chunks = 2;
  return r;
}

// Experts on two groups of data-parallel ranks, next to a shared MLP.
CompileRequest experts_request(int64_t tensor) {
  CompileRequest r = overlapped_request(model::Family::kDeepseekV3);
  r.model.experts = 16;
  r.model.experts_per_token = 2;
  r.model.expert_feed_forward = 32;
  r.model.shared_feed_forward = 64;
  r.model.dense_layers.clear();
  r.model.latent = {
      .query_rank = 16, .key_value_rank = 16, .nope_width = 4, .rope_width = 4, .value_width = 8};
  model::derive_sizes(r.model);
  r.layout.tensor = tensor;
  r.layout.data = r.layout.expert = 2;
  r.options.tp_comm_overlap = tensor > 1;
  r.options.ep_comm_overlap = true;
  return r;
}

std::vector<CompileRequest> overlapped_layers() {
  std::vector<CompileRequest> all;
  for (const model::Family family :
       {model::Family::kGpt2, model::Family::kNeox, model::Family::kLlama})
    all.push_back(overlapped_request(family));
  for (const int64_t tensor : {1, 2}) all.push_back(experts_request(tensor));
  return all;
}

// Collectives have workspaces, so that these share bytes with other values.
Target target() {
  Target t;
  t.workspace_bytes = [](const Op& op, ValueSpan) { return communicates(op) ? 256 : 0; };
  return t;
}

TEST(InnerQueues, CompiledLayersReadWhatTheyMean) {
  for (const CompileRequest& request : overlapped_layers()) {
    const Program p = compile(request, target());
    EXPECT_EQ(tessera::verify(p), std::vector<std::string>());
    int overlapped = 0;
    for (const Segment& s : p.segments) {
      if (!uses_inner_queues(s.ops)) continue;
      ++overlapped;
      const DataFlow flow(s.ops, p.values);
      EXPECT_EQ(wrong_reads(p, s, flow, in_order(s.ops.size()), 20, 1), 0) << s.name();
    }
    EXPECT_EQ(overlapped, 2);
    EXPECT_EQ(tessera::print(parse_program(tessera::print(p), "printed")), tessera::print(p));
  }
}

// Returns the number of ops of that origin during which a collective of the experts may run.
int64_t run_during_exchange(const Segment& s, const std::string& origin) {
  const OpClocks clocks(s.ops);
  int64_t count = 0;
  for (int32_t i = 0; i < std::ssize(s.ops); ++i) {
    if (!s.ops[i].origin.starts_with(origin)) continue;
    EXPECT_EQ(s.ops[i].queue, Queue::kCompute);
    bool free = false;
    for (int32_t j = 0; j < std::ssize(s.ops); ++j)
      free |= s.ops[j].queue == Queue::kExpert && !clocks.is_before(std::min(i, j), std::max(i, j));
    count += free;
  }
  return count;
}

TEST(InnerQueues, SharedExpertsRunDuringTheExchangeOfTokens) {
  const Program p = compile(experts_request(1), target());
  int segments = 0;
  for (const Segment& s : p.segments) {
    const auto exchanges = std::count_if(s.ops.begin(), s.ops.end(),
                                         [](const Op& op) { return op.queue == Queue::kExpert; });
    if (s.phase != Phase::kForward && s.phase != Phase::kBackward) {
      EXPECT_EQ(exchanges, 0) << s.name();
      continue;
    }
    if (exchanges == 0) continue;
    ++segments;
    EXPECT_GT(run_during_exchange(s, "layer.mlp.shared"), s.phase == Phase::kForward ? 1 : 3)
        << s.name();
    for (const Op& op : s.ops) {
      const GroupRef* const over = over_of(op.attributes);
      if (over != nullptr && over->has(AxisKind::kExpert)) {
        EXPECT_EQ(op.queue, Queue::kExpert) << op.origin;
      }
    }
  }
  EXPECT_EQ(segments, 2);
}

bool adds_to_gradient(const Program& p, const Op& op) {
  return std::any_of(op.outputs.begin(), op.outputs.end(),
                     [&](ValueId v) { return p[v].role == Role::kGradient; });
}

// A rank holds two key/value heads, as many as a micro-batch has sequences, so the first dimension
// of the QKV weight looks like one of sequences. The first accumulation of a call writes the
// gradient, so none may be cut into chunks, and the verifier rejects a program where one is.
TEST(InnerQueues, AccumulationsOfWeightGradientsStayWhole) {
  CompileRequest r = overlapped_request(model::Family::kLlama);
  r.sequences = 2;
  r.options.fuse_grad_accumulation = false;
  Program p = compile(r, target());
  EXPECT_EQ(tessera::verify(p), std::vector<std::string>());
  int64_t as_long = 0, rejected = 0;
  for (Segment& s : p.segments) {
    if (!uses_inner_queues(s.ops)) continue;
    for (Op& op : s.ops) {
      if (!adds_to_gradient(p, op)) continue;
      EXPECT_TRUE(op.chunk.is_whole()) << op.origin;
      if (!op.is<Accumulate>() || p[op.outputs[0]].local()[0] != r.sequences) continue;
      ++as_long;
      op.chunk = {0, 2};
      rejected += !tessera::verify(p).empty();
      op.chunk = {};
    }
  }
  EXPECT_EQ(as_long, 1);
  EXPECT_EQ(rejected, 1);
}

// One change of a layer's ops. What reads wrong bytes in some order must be found.
class Mutator {
 public:
  Mutator(const Program& p, SegmentId segment, uint64_t seed)
      : program(p), segment_(segment), random_(seed) {
    names = in_order(ops().size());
  }

  // Returns whether this kind of change is possible.
  bool make(int kind) {
    switch (kind) {
      case 0:
        return drop_wait();
      case 1:
        return swap_neighbors();
      case 2:
        return move_offset();
      default:
        return move_to_other_queue();
    }
  }

  Program program;
  std::vector<size_t> names;  // of the ops, in the list before the change
  const Segment& segment() const { return program.segment(segment_); }

 private:
  std::vector<Op>& ops() { return program.segments[segment_].ops; }
  size_t any(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }

  bool drop_wait() {
    Op& op = ops()[any(ops().size())];
    if (op.after.empty()) return false;
    op.after.erase(op.after.begin() + static_cast<std::ptrdiff_t>(any(op.after.size())));
    return true;
  }
  // Two ops that follow each other in the list, with their waits.
  bool swap_neighbors() {
    const size_t i = any(ops().size() - 1);
    const auto a = static_cast<int32_t>(i), b = a + 1;
    if (std::count(ops()[i + 1].after.begin(), ops()[i + 1].after.end(), a) > 0) return false;
    std::swap(ops()[i], ops()[i + 1]);
    std::swap(names[i], names[i + 1]);
    for (Op& op : ops())
      for (int32_t& j : op.after) j = j == a ? b : (j == b ? a : j);
    return true;
  }
  bool move_offset() {
    Op& op = ops()[any(ops().size())];
    Value& v = program.values[op.outputs[any(op.outputs.size())]];
    const Segment& s = segment();
    if (v.buffer != kNone || s.scratch_bytes == v.bytes()) return false;
    const int64_t places = (s.scratch_bytes - v.bytes()) / 64;
    const int64_t offset = 64 * static_cast<int64_t>(any(static_cast<size_t>(places) + 1));
    if (offset == v.offset) return false;
    v.offset = offset;
    return true;
  }
  bool move_to_other_queue() {
    Op& op = ops()[any(ops().size())];
    if (!is_inner(op.queue)) return false;  // what computes may not be on an inner queue at all
    op.queue = Queue::kCompute;
    // Its waits for its new queue go; the queue has them.
    std::erase_if(op.after,
                  [&](int32_t j) { return !is_inner(ops()[static_cast<size_t>(j)].queue); });
    return true;
  }

  SegmentId segment_;
  std::mt19937_64 random_;
};

TEST(InnerQueues, NoMutantOfALayerIsMissed) {
  std::array<int64_t, 4> made{}, harmful{};
  for (const CompileRequest& request :
       {overlapped_request(model::Family::kGpt2), overlapped_request(model::Family::kLlama),
        experts_request(1), experts_request(2)}) {
    const Program p = compile(request, target());
    for (const SegmentId id : p.segments.ids()) {
      const Segment& s = p.segment(id);
      if (!uses_inner_queues(s.ops)) continue;
      const DataFlow flow(s.ops, p.values);
      for (uint64_t seed = 0; seed < 400; ++seed) {
        const int kind = static_cast<int>(seed % 4);
        Mutator m(p, id, seed);
        if (!m.make(kind)) continue;
        ++made[static_cast<size_t>(kind)];
        const bool found = !tessera::verify(m.program).empty();
        // Waits are the fewest, so each one orders something.
        if (kind == 0) {
          EXPECT_TRUE(found) << s.name() << " seed " << seed;
        }
        if (found) {
          ++harmful[static_cast<size_t>(kind)];
          continue;
        }
        EXPECT_EQ(wrong_reads(m.program, m.segment(), flow, m.names, 8, seed), 0)
            << s.name() << " kind " << kind << " seed " << seed;
      }
    }
  }
  for (size_t k = 0; k < made.size(); ++k) {
    EXPECT_GT(made[k], 20) << "kind " << k;
    if (k < 3) {
      EXPECT_GT(harmful[k], 5) << "kind " << k;
    }
  }
}

}  // namespace
}  // namespace tessera::compile
