#include "ir/verify.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "compile/compile.h"
#include "model/forward.h"
#include "tests/ir/sample_program.h"
#include "tests/ir/small_request.h"

namespace tessera {
namespace {

using testing::Sample;
using testing::sample_graph;
using testing::sample_program;
using testing::small_request;

std::string texts(const std::vector<std::string>& findings) {
  std::string all;
  for (const std::string& s : findings) all += s + "\n";
  return all;
}

// A target that wants a workspace for every product and packed weights.
Target greedy_target() {
  Target t;
  t.workspace_bytes = [](const Op& op, ValueSpan) {
    return op.inputs.size() > 1 ? int64_t{1000} : int64_t{0};
  };
  t.packed_bytes = [](const Op&, ValueSpan) { return int64_t{7000}; };
  return t;
}

TEST(Verify, ProgramsWithAnEncoderAreRight) {
  for (const compile::ProgramKind kind :
       {compile::ProgramKind::kTrain, compile::ProgramKind::kValidate,
        compile::ProgramKind::kLogits})
    for (const compile::Precision precision :
         {compile::Precision::kFp32, compile::Precision::kBf16}) {
      compile::CompileRequest r = small_request();
      r.model.family = model::Family::kT5;
      r.model.encoder_layers = 3;
      r.model.dropout = r.model.attention_dropout = 0.1;
      r.kind = kind;
      r.precision = precision;
      r.encoder_tokens = 24;
      if (kind != compile::ProgramKind::kTrain) r.microbatches = 1;
      EXPECT_EQ(texts(verify(compile::compile(r, greedy_target()))), "");
      EXPECT_EQ(texts(verify(model::forward(r.model, 2, 32))), "");
    }
}

TEST(Verify, CompiledProgramsAreRight) {
  for (const model::Family family :
       {model::Family::kNeox, model::Family::kGpt2, model::Family::kLlama})
    for (const compile::ProgramKind kind :
         {compile::ProgramKind::kTrain, compile::ProgramKind::kValidate,
          compile::ProgramKind::kLogits, compile::ProgramKind::kDecode})
      for (const compile::Precision precision :
           {compile::Precision::kFp32, compile::Precision::kBf16})
        for (const char* recompute : {"none", "selective", "full:1"})
          for (const bool fused : {true, false}) {
            compile::CompileRequest r = small_request();
            r.model.family = family;
            r.model.tied_embeddings = family == model::Family::kGpt2;
            r.model.parallel_residual = fused;
            r.model.dropout = r.model.attention_dropout = fused ? 0 : 0.1;
            r.kind = kind;
            r.precision = precision;
            r.layout.recompute = recompute;
            if (kind != compile::ProgramKind::kTrain) r.microbatches = 1;
            if (!fused) {
              r.options.attention = compile::AttentionKind::kUnfused;
              r.options.cross_entropy = compile::CrossEntropyKind::kUnfused;
              r.options.fuse_bias_gelu = r.options.fuse_residual_norm = false;
            }
            EXPECT_EQ(texts(verify(compile::compile(r, fused ? greedy_target() : Target()))), "");
            EXPECT_EQ(texts(verify(model::forward(r.model, 2, 32))), "");
          }
}

TEST(Verify, SamplesAreRight) {
  EXPECT_EQ(texts(verify(sample_graph().graph)), "");
  EXPECT_EQ(texts(verify(sample_program())), "");
}

// Breaks the sample in one way and expects one of the findings to be `expected`.
void expect_found(const std::function<void(Sample&)>& change, const std::string& expected) {
  Sample s = sample_graph();
  change(s);
  EXPECT_NE(texts(verify(s.graph)).find(expected), std::string::npos)
      << "expected " << expected << "\nfound " << texts(verify(s.graph));
}
void expect_found_in(const std::function<void(Program&)>& change, const std::string& expected) {
  Program p = sample_program();
  change(p);
  EXPECT_NE(texts(verify(p)).find(expected), std::string::npos)
      << "expected " << expected << "\nfound " << texts(verify(p));
}

TEST(VerifyGraph, NamesBrokenOps) {
  expect_found([](Sample& s) { s.graph.blocks[BlockId(0)].forward[1].inputs[0] = ValueId(99); },
               "forward.layer layer.up (matmul): input 0 is value 99 of 7");
  expect_found(
      [](Sample& s) {
        s.graph[s.out].shape = {2, 8, 31};
      },
      "forward.layer layer.up (matmul): output layer.up is f32 [2, 8, 31], its rule gives "
      "f32 [2, 8, 32]");
  expect_found([](Sample& s) { s.graph[s.stats].dtype = DType::kBF16; },
               "layer.norm (norm): output layer.norm.stats is bf16 [2, 8, 2], its rule gives f32");
  expect_found([](Sample& s) { s.graph.blocks[BlockId(0)].forward[0].outputs.pop_back(); },
               "layer.norm (norm): has 1 outputs, its rule gives 2");
  expect_found(
      [](Sample& s) {
        std::swap(s.graph.blocks[BlockId(0)].forward[0], s.graph.blocks[BlockId(0)].forward[1]);
      },
      "layer.up (matmul): reads layer.norm, which nothing before it made");
  expect_found(
      [](Sample& s) {
        s.graph.blocks[BlockId(0)].forward.push_back(s.graph.blocks[BlockId(0)].forward[1]);
      },
      "layer.up (matmul): makes layer.up a second time");
  expect_found([](Sample& s) { s.graph.blocks[BlockId(0)].forward.pop_back(); },
               "block layer: no op makes its output layer.up");
}

TEST(VerifyGraph, NamesLayersThatAreNotNumberedAlongTheirStream) {
  const auto numbers = [](std::vector<int64_t> at, const std::string& expected) {
    expect_found([&](Sample& s) { s.graph.blocks[BlockId(0)].at = at; }, expected);
  };
  numbers({}, "block layer: is a stack and has 0 numbers of layers");
  numbers({1, 0}, "block layer: its layers do not rise");
  numbers({0, 1, 1}, "block layer: layer 1 exists twice");
  numbers({0, 2}, "the 2 layers of a stream have numbers 0 to 2");
  numbers({1, 2}, "the 2 layers of a stream have numbers 1 to 2");
}

// Placements of hidden, gain and bias, norm's outputs, weight and output on the tensor axis.
Graph sharded(int8_t x, int8_t vectors, int8_t y, int8_t weight, int8_t out) {
  Sample s = sample_graph();
  const AxisKind axis = AxisKind::kTensor;
  s.graph.mesh[AxisKind::kTensor] = 2;
  const auto put = [&](ValueId v, int8_t place) {
    s.graph[v].sharding.place[axis] = place;
    localise(s.graph[v], s.graph.mesh);
  };
  put(s.hidden, x);
  put(s.gain, vectors);
  put(s.bias, vectors);
  put(s.graph.blocks[BlockId(0)].forward[0].outputs[0], y);
  put(s.stats, y);
  put(s.weight, weight);
  put(s.out, out);
  return s.graph;
}

TEST(VerifySharding, SignaturesPass) {
  EXPECT_EQ(texts(verify(sharded(kShared, kShared, kShared, kShared, kShared))), "");
  EXPECT_EQ(texts(verify(sharded(0, kShared, 0, kShared, 0))), "");        // batch
  EXPECT_EQ(texts(verify(sharded(1, kShared, 1, kShared, 1))), "");        // sequence
  EXPECT_EQ(texts(verify(sharded(kShared, kShared, kShared, 0, 2))), "");  // columns
}

TEST(VerifySharding, OtherPlacesAreNamed) {
  const auto found = [](const Graph& g) { return texts(verify(g)); };
  // Features of a norm cannot be split.
  EXPECT_NE(found(sharded(2, 0, 2, 1, kPartial))
                .find("layer.norm (norm): no signature of its rule "
                      "on axis tensor has layer.input split 2"),
            std::string::npos);
  // Rows of a weight split, but a whole input.
  EXPECT_NE(found(sharded(kShared, kShared, kShared, 1, kPartial)).find("layer.up (matmul)"),
            std::string::npos);
  // Replicated beside shared.
  EXPECT_NE(found(sharded(kReplicated, kShared, kShared, kShared, kShared)).find("layer.norm"),
            std::string::npos);
  // A product that should be partial.
  EXPECT_NE(found(sharded(kShared, kShared, kShared, 0, kShared)).find("layer.up (matmul)"),
            std::string::npos);
}

// A conversion from one place of [2, 8, 32] to another, on two tensor ranks.
std::string converted(const OpAttributes& attributes, int8_t from, int8_t to) {
  Mesh mesh;
  mesh[AxisKind::kTensor] = 2;
  ValueVector values(2);
  for (Value& v : values) v.shape = {2, 8, 32};
  values[ValueId(0)].name = "x";
  values[ValueId(1)].name = "y";
  values[ValueId(0)].sharding.place[AxisKind::kTensor] = from;
  values[ValueId(1)].sharding.place[AxisKind::kTensor] = to;
  Op op;
  op.attributes = attributes;
  op.inputs = {ValueId(0)};
  op.outputs = {ValueId(1)};
  return texts(verify_op(op, values, "", mesh));
}

TEST(VerifySharding, ConversionsLeadWhereTheySay) {
  const GroupRef tensor = GroupRef::along({AxisKind::kTensor});
  // `other` works along another dimension.
  struct Row {
    OpAttributes attributes;
    int8_t from, to;
    std::optional<OpAttributes> other = std::nullopt;
  };
  const Row right[] = {{AllReduce{.over = tensor}, kPartial, kReplicated},
                       {AllReduce{.over = tensor}, kPartial, kShared},
                       {AllReduce{.over = tensor, .max = true}, kPartialMax, kShared},
                       {ReduceScatter{tensor, 1}, kPartial, 1, ReduceScatter{tensor, 2}},
                       {AllGather{tensor, 2}, 2, kShared, AllGather{tensor, 0}},
                       {AllGather{tensor, 1}, 1, kReplicated, AllGather{tensor, 2}},
                       {Slice{tensor, 0}, kReplicated, 0, Slice{tensor, 1}},
                       {Slice{tensor, 1}, kShared, 1, Slice{tensor, 2}},
                       {Pad{tensor, 1}, 1, kPartial, Pad{tensor, 2}},
                       {MarkShared{tensor}, kReplicated, kShared}};
  for (const Row& r : right) {
    const std::string name(name_of(kind_of(r.attributes)));
    const bool slices = kind_of(r.attributes) == kind_of<Slice>();
    EXPECT_EQ(converted(r.attributes, r.from, r.to), "") << name;
    // Nowhere else, along no other dimension, and not without a word on an axis it does not name.
    for (const int8_t from : {kReplicated, kShared, kPartial, kPartialMax}) {
      if (from == r.from || (slices && from <= kReplicated && from >= kShared)) continue;
      EXPECT_NE(converted(r.attributes, from, r.to), "") << name << " from " << int{from};
    }
    if (r.other) {
      EXPECT_NE(converted(*r.other, r.from, r.to), "") << name;
    }
    OpAttributes elsewhere = r.attributes;
    *over_of(elsewhere) = GroupRef::along({AxisKind::kShard});
    EXPECT_NE(converted(elsewhere, r.from, r.to), "") << name;
  }
}

TEST(VerifySharding, PartsOfALinearSetArePartial) {
  Sample s = sample_graph();
  s.graph.mesh[AxisKind::kTensor] = 2;
  Op& up = s.graph.blocks[BlockId(0)].forward[1];
  up.inputs[0] = s.hidden;  // no norm between
  s.graph.blocks[BlockId(0)].forward.erase(s.graph.blocks[BlockId(0)].forward.begin());
  const AxisKind axis = AxisKind::kTensor;
  s.graph[s.hidden].sharding.place[axis] = kPartial;
  s.graph[s.weight].sharding.place[axis] = kShared;
  s.graph[s.out].sharding.place[axis] = kPartial;
  EXPECT_EQ(texts(verify(s.graph)), "");
  s.graph[s.weight].sharding.place[axis] = kPartial;
  EXPECT_NE(texts(verify(s.graph)), "");
}

TEST(VerifyProgram, NamesBrokenReferences) {
  expect_found_in([](Program& p) { p.schedule[CallId(1)].buffers[0] = BufferId(4); },
                  "call #1: has buffer 4 of 4");
  expect_found_in([](Program& p) { p.schedule[CallId(0)].segment = SegmentId(-1); },
                  "call #0: runs segment -1 of 2");
  expect_found_in([](Program& p) { p.schedule[CallId(0)].after = {CallId(2)}; },
                  "call #0: waits for call 2 of 2");
  expect_found_in([](Program& p) { p.values[ValueId(0)].buffer = BufferKindId(4); },
                  "layer.input: is stored in buffer kind 4");
  expect_found_in([](Program& p) { p.segments[SegmentId(1)].buffers[0].kind = BufferKindId(9); },
                  "forward.layer: has a parameter of buffer kind 9 of 4");
}

TEST(VerifyProgram, NamesBrokenLayouts) {
  expect_found_in([](Program& p) { p.values[ValueId(2)].offset = 32; },
                  "layer.weights: layer.norm.gain and layer.norm.bias overlap");
  expect_found_in([](Program& p) { p.kinds[BufferKindId(0)].bytes -= 1; },
                  "layer.weights: layer.up.weight of 2048 bytes at 128 does not fit in 2175 bytes");
  expect_found_in([](Program& p) { p.values[ValueId(2)].buffer = BufferKindId(1); },
                  "layer.weights: layer.norm.bias is not in this buffer kind");
  expect_found_in([](Program& p) { p.segments[SegmentId(1)].scratch_bytes -= 1; },
                  "forward.layer: layer.norm.stats of 128 bytes at 1024 does not fit in the 1151 "
                  "bytes of its scratch");
  expect_found_in([](Program& p) { p.values[ValueId(5)].offset = 512; },
                  "forward.layer: layer.norm.stats and layer.norm have overlapping lifetimes");
}

TEST(VerifyProgram, NamesBrokenParameters) {
  expect_found_in([](Program& p) { p.segments[SegmentId(1)].buffers[2].access = Access::kRead; },
                  "forward.layer: declares access read of hidden', its ops need write");
  expect_found_in([](Program& p) { p.segments[SegmentId(1)].buffers[0].access = Access::kUpdate; },
                  "forward.layer: declares access update of layer.weights, its ops need read");
  expect_found_in(
      [](Program& p) {
        p.segments[SegmentId(1)].buffers.erase(p.segments[SegmentId(1)].buffers.begin());
      },
      "forward.layer: its ops use layer.weights, which is not a parameter");
  expect_found_in(
      [](Program& p) {
        p.segments[SegmentId(1)].buffers.push_back({BufferKindId(1), Access::kRead});
      },
      "forward.layer: has the parameter report, which none of its ops uses");
  expect_found_in(
      [](Program& p) { p.segments[SegmentId(1)].ops.erase(p.segments[SegmentId(1)].ops.begin()); },
      "layer.up (matmul): reads layer.norm, which nothing before it made");
}

TEST(VerifyProgram, NamesBrokenCalls) {
  expect_found_in(
      [](Program& p) { p.schedule[CallId(1)].buffers.pop_back(); },
      "call #1 forward.layer layer=0 mb=0: has 2 buffers, its segment has 3 parameters");
  expect_found_in([](Program& p) { p.schedule[CallId(1)].buffers[0] = BufferId(1); },
                  "buffer 0 is of kind report, its segment expects layer.weights");
  expect_found_in([](Program& p) { p.schedule[CallId(1)].first_write.pop_back(); },
                  "has 2 flags for first writes, expected one per buffer (3)");
}

// A buffer that is written, but not all of it.
TEST(VerifyProgram, NamesWhatIsLeftOut) {
  Program p = compile::compile(small_request(), {});
  for (Segment& s : p.segments) {
    if (s.phase != Phase::kBackward || s.subject != "layer") continue;
    const auto norm =
        std::find_if(s.ops.begin(), s.ops.end(), [](const Op& op) { return op.is<BiasGrad>(); });
    ASSERT_NE(norm, s.ops.end());
    s.ops.erase(norm);
  }
  EXPECT_NE(texts(verify(p)).find("writes layer.gradients but not its member"), std::string::npos)
      << texts(verify(p));
}

// Every value of a compiled program moved onto the bytes of another: found whenever both are alive,
// so most of the time.
TEST(VerifyProgram, NamesScratchThatOverlaps) {
  const Program good = compile::compile(small_request(), {});
  int moved = 0, found = 0;
  for (const ValueId v : good.values.ids()) {
    if (good.values[v].buffer != kNone || good.values[v].offset <= 0) continue;
    Program p = good;
    p.values[v].offset = 0;
    ++moved;
    found += !verify(p).empty();
  }
  EXPECT_GE(moved, 5);
  EXPECT_GT(found, moved / 2);
}

}  // namespace
}  // namespace tessera
