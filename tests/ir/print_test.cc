#include "ir/print.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "base/error.h"
#include "compile/compile.h"
#include "compile/graph/graph_passes.h"
#include "ir/lexer.h"
#include "ir/parse.h"
#include "ir/summary.h"
#include "model/forward.h"
#include "tests/ir/sample_program.h"
#include "tests/ir/small_request.h"

namespace tessera {
namespace {

using testing::sample_graph;
using testing::sample_program;
using testing::small_request;

void expect_round_trip(const Program& p) {
  const std::string text = print(p);
  const Program q = parse_program(text, "text");
  EXPECT_EQ(print(q), text);
  EXPECT_TRUE(q == p);
}

// Something in every field that a program has.
Program full_program() {
  Program p = sample_program();
  Value& v = p.values[ValueId(1)];
  v.decays = true;
  v.initial = {0.1 + 0.2, -1.0 / 3};
  v.parent = {"the whole", {4, 6}, 4, 2};
  v.sharding.place[AxisKind::kTensor] = 0;
  v.sharding.place[AxisKind::kShard] = kShared;
  v.sharding.place[AxisKind::kContext] = kPartialMax;
  p.values[ValueId(2)].name = "two words \"quoted\" \\ and\na line";
  p.values[ValueId(3)].name = p.values[ValueId(1)].name;  // no longer a name for one
  p.kinds[BufferKindId(1)].name = "-3";
  Op& norm = p.segments[SegmentId(1)].ops[0];
  norm.attributes = Norm{-std::numeric_limits<double>::infinity(), -7, 9};
  Op& op = p.segments[SegmentId(1)].ops[1];
  op.workspace = ValueId(4);
  op.packed = ValueId(2);
  op.queue = Queue::kGroups;
  op.attributes = AllReduce{GroupRef::of_stages({0, 3}), true, DType::kBF16, 4, 3};
  Op& clear = p.segments[SegmentId(0)].ops[0];
  clear.attributes = Adamw{{.members = BufferKindId(1),  // whose name is not a word
                            .beta1 = 1e300,
                            .beta2 = 7,
                            .master = true,
                            .weights = DType::kF16,
                            .rounding = Rounding::kStochastic}};
  p.segments[SegmentId(0)].queue = Queue::kCopyIn;
  p.schedule[CallId(1)].first_write = {false, true, true};
  p.schedule[CallId(1)].comm = {CommKind::kAllReduce,
                                GroupRef::along({AxisKind::kReplica, AxisKind::kTensor}), kNone,
                                "layer 3, gradients", 1 << 20};
  p.schedule[CallId(0)].comm = {CommKind::kSend, {}, 2, "hidden", 64};
  p.schedule[CallId(1)].after = {CallId(0), CallId(1)};
  p.schedule[CallId(0)].before_step = {CallId(1)};
  p.schedule[CallId(0)].first_write = {};
  return p;
}

TEST(Print, SampleStaysAsItIs) {
  EXPECT_EQ(print(sample_program()), R"(program train state=2368 scratch=2432 bytes=12000 live=11000
values
  %0 layer.input f32 [2, 8, 16] stream per=layer in=hidden offset=0
  %1 layer.norm.gain f32 [16] weight per=layer in=layer.weights offset=0
  %2 layer.norm.bias f32 [16] weight per=layer in=layer.weights offset=64
  %3 layer.up.weight f32 [32, 16] weight per=layer in=layer.weights offset=128
  %4 layer.norm f32 [2, 8, 16] activation per=layer,microbatch offset=0
  %5 layer.norm.stats f32 [2, 8, 2] activation per=layer,microbatch offset=1024
  %6 layer.up f32 [2, 8, 32] activation per=layer,microbatch in=hidden' offset=0
  %7 report f64 [24] report in=report offset=0
kinds
  $0 layer.weights bytes=2176 per=layer state: layer.norm.gain, layer.norm.bias, layer.up.weight
  $1 report bytes=192 state: report
  $2 hidden bytes=2048 per=layer: %0
  $3 hidden' bytes=2048 per=layer,microbatch: %6
segments
  $0 clear queue=compute scratch=0
    write report
    report = clear () : f64 [24]
  $1 forward.layer queue=compute scratch=1152
    read layer.weights, hidden
    write hidden'
    %4, %5 = norm (%0, layer.norm.gain, layer.norm.bias) epsilon=1e-05 at=layer.norm : f32 [2, 8, 16], f32 [2, 8, 2]
    %6 = matmul (%4, layer.up.weight) contract=1 at=layer.up : f32 [2, 8, 32]
buffers
  @0 layer.weights layer=0 offset=0 state
  @1 report offset=2176 state
  @2 hidden layer=0 mb=0 offset=5248
  @3 hidden layer=1 mb=0 offset=7296
calls
  #0 clear buffers=@1 first_write=-
  #1 forward.layer layer=0 mb=0 buffers=@0,@2,@3 first_write=-
)");
}

TEST(Print, EveryFieldComesBack) {
  expect_round_trip(sample_program());
  expect_round_trip(full_program());
  Program empty;
  empty.name = "empty";
  expect_round_trip(empty);
}

TEST(Print, GraphsComeBack) {
  Graph g = sample_graph().graph;
  g.blocks[BlockId(0)].loss = true;
  g.blocks[BlockId(0)].backward = g.blocks[BlockId(0)].forward;
  const Graph h = parse_graph(print(g), "text");
  EXPECT_EQ(print(h), print(g));
  EXPECT_TRUE(h == g);
}

TEST(Print, CompiledProgramsComeBack) {
  compile::CompileRequest r = small_request();
  for (const model::Family family :
       {model::Family::kNeox, model::Family::kGpt2, model::Family::kLlama})
    for (const compile::Precision precision :
         {compile::Precision::kFp32, compile::Precision::kBf16})
      for (const char* recompute : {"none", "selective", "full:1"}) {
        r.model.family = family;
        r.model.dropout = r.model.attention_dropout = family == model::Family::kGpt2 ? 0.1 : 0;
        r.precision = precision;
        r.layout.recompute = recompute;
        expect_round_trip(compile::compile(r, {}));
        const Graph g = model::forward(r.model, 2, 32);
        EXPECT_TRUE(parse_graph(print(g), "text") == g);
      }
}

TEST(Print, AnEncoderComesBack) {
  compile::CompileRequest r = small_request();
  r.model.family = model::Family::kT5;
  r.model.encoder_layers = 2;
  r.encoder_tokens = 24;
  expect_round_trip(compile::compile(r, {}));
  Graph g = model::forward(r.model, {2, 32, 24});
  EXPECT_TRUE(parse_graph(print(g), "text") == g);
  compile::differentiate(g);
  EXPECT_TRUE(parse_graph(print(g), "text") == g);
}

// Two stacks of one stream, whose values have the same names.
TEST(Print, InterleavedStacksComeBack) {
  compile::CompileRequest r = small_request();
  r.model.layers = 5;
  r.layout.data = r.layout.pipeline = 2;
  for (const char* recompute : {"none", "full:1"})
    for (const std::vector<int64_t>& nope : {std::vector<int64_t>{1, 4}, {0, 2}}) {
      r.model.no_rope_layers = nope;
      r.layout.recompute = recompute;
      for (const Program& p : compile::compile_stages(r, {})) expect_round_trip(p);
      Graph g = model::forward(r.model, 2, 32);
      EXPECT_NE(print(g).find(nope[0] == 1 ? "block layer_nope layers=2 at=1,4"
                                           : "block layer_nope layers=2 at=0,2"),
                std::string::npos);
      EXPECT_TRUE(parse_graph(print(g), "text") == g);
      compile::differentiate(g);
      EXPECT_TRUE(parse_graph(print(g), "text") == g);
    }
}

TEST(Parse, ABlockHasAsManyLayersAsNumbers) {
  const std::string text = print(sample_graph().graph);
  const auto fault = [&](const std::string& layers) {
    std::string other = text;
    const std::string known = "layers=3";
    other.replace(other.find(known), known.size(), layers);
    try {
      return print(parse_graph(other, "p.txt"));
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  EXPECT_EQ(fault("layers=3 at=0,1,2"), text);
  EXPECT_NE(fault("layers=3 at=1,2,5").find("layers=3 at=1,2,5"), std::string::npos);
  EXPECT_NE(fault("layers=3 at=1,2").find("found '3', expected 2 layers, as in at="),
            std::string::npos);
  EXPECT_NE(fault("layers=0").find("expected 1 to 100000 layers"), std::string::npos);
  EXPECT_NE(fault("layers=99999999999").find("expected 1 to 100000 layers"), std::string::npos);
}

// What names alone tell: copies, gradients, factors and the buffers that belong to a kind of
// weights.
TEST(Print, RelationsComeBack) {
  compile::CompileRequest r = small_request();
  r.optimizer.kind = OptimizerKind::kAdafactor;
  r.layout.data = 2;
  for (const int64_t zero : {0, 1, 3}) {
    r.layout.zero = zero;
    expect_round_trip(compile::compile(r, {}));
  }
  r.layout = {};
  r.layout.offload = "activations";
  r.model.layers = 4;
  expect_round_trip(compile::compile(r, {}));
  r.layout.offload = "none";
  r.layout.pipeline = 2;
  r.microbatches = 2;
  expect_round_trip(compile::compile(r, {}));
}

// Doubles and integers, of all magnitudes, are told apart and come back bit for bit.
TEST(Print, NumbersComeBack) {
  std::mt19937_64 random(1);
  Program p = sample_program();
  for (int i = 0; i < 2000; ++i) {
    const double x = std::bit_cast<double>(random());
    if (std::isnan(x)) continue;
    OpAttributes& a = p.segments[SegmentId(1)].ops[1].attributes;
    a = Dropout{.p = x, .key = static_cast<int64_t>(random())};
    const Program q = parse_program(print(p), "text");
    ASSERT_TRUE(q.segments[SegmentId(1)].ops[1].attributes == a) << print(p);
  }
}

TEST(Summary, GroupsCallsAndAddsUp) {
  const std::string s = summary(compile::compile(small_request(), {}));
  for (const char* wanted :
       {"program train: ", "#2-#3        forward.layer layer=0…1 mb=0\n",
        "#5-#6        backward.layer layer=1…0 mb=0\n", "  layer.weights ", "state", "arena"})
    EXPECT_NE(s.find(wanted), std::string::npos) << wanted << "\n" << s;
}

// Replaces the first `from` and expects the error.
void expect_error(const std::string& from, const std::string& to, const std::string& error) {
  std::string text = print(sample_program());
  const size_t at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from;
  text.replace(at, from.size(), to);
  try {
    parse_program(text, "p.txt");
    FAIL() << "no error for " << to;
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), error);
  }
}

TEST(Parse, ErrorsNamePlaceFoundAndWanted) {
  expect_error("program train", "prorgam train", "p.txt:1:1: found 'prorgam', expected 'program'");
  expect_error("f32 [2, 8", "f33 [2, 8", "p.txt:3:18: found 'f33', expected an element type");
  expect_error("[2, 8, 16] stream", "[2, 8; 16] stream",
               "p.txt:3:27: found ';', expected a word, a number or one of ()[]=,:-");
  expect_error("weight per", "wait per", "p.txt:4:31: found 'wait', expected the role of a value");
  expect_error("%1 layer", "%2 layer", "p.txt:4:3: found '%2', expected %1");
  expect_error("in=report", "in=reprot", "p.txt:10:32: found 'reprot', expected a buffer kind");
  expect_error("= norm", "= nrom", "p.txt:23:14: found 'nrom', expected the name of an op");
  expect_error("(%4,", "(%8,", "p.txt:24:18: found '%8', expected a value below %8");
  expect_error("matmul (%4, layer.up.weight)", "matmul (%4, layer.up.wait)",
               "p.txt:24:22: found 'layer.up.wait', expected the name of a value");
  expect_error("contract=1", "contract=", "p.txt:24:49: found 'at', expected a whole number");
  expect_error(": f64 [24]", ": f64 [17]",
               "p.txt:19:25: found 'f64', expected f64 [24], the type of report");
  expect_error("buffers=@0,@2,@3", "buffers=@0,@2,@4",
               "p.txt:32:47: found '@4', expected a buffer below @4");
  expect_error("buffers=@0,@2,@3", "buffers=@0,@2",
               "p.txt:32:3: found '#1', expected 3 buffers, one per parameter of forward.layer "
               "(this call has 2)");
  expect_error("buffers=@1 first_write=-", "buffers=@1 after=#2",
               "p.txt: found a wait for call #2, expected one below #2");
  expect_error("bytes=12000", "bytes=99999999999999999999",
               "p.txt:1:45: found '99999999999999999999', expected a whole number");
  expect_error("report = clear () : f64 [24]", "\"report = clear () : f64 [24]",
               "p.txt:19:5: found an unterminated string, expected a closing '\"'");
}

TEST(Parse, ColumnsCountCharacters) {
  const std::vector<Token> tokens = tokens_of("a \"é日😀\" x\n\"ü\" 7", "p.txt");
  ASSERT_EQ(tokens.size(), 8U);
  EXPECT_EQ(tokens[2].column, 9);
  EXPECT_EQ(tokens[5].column, 5);
}

// Any cut or changed byte ends in a program or an Error, never in a crash.
TEST(Parse, BrokenTextIsAnErrorOrAProgram) {
  const std::string text = print(full_program());
  std::mt19937 random(3);
  for (int i = 0; i < 4000; ++i) {
    std::string broken = text;
    const size_t at = random() % broken.size();
    if (i % 3 == 0)
      broken.resize(at);
    else if (i % 3 == 1)
      broken[at] = static_cast<char>(random());
    else
      broken.erase(at, random() % 20);
    try {
      print(parse_program(broken, "text"));
    } catch (const Error& e) {
      EXPECT_NE(std::string(e.what()).find("expected"), std::string::npos) << e.what();
    }
  }
}

}  // namespace
}  // namespace tessera
