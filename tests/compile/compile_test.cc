// Whole models through all passes: what comes out verifies, checks, and reads back from its text.
#include "compile/compile.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/error.h"
#include "compile/check/check.h"
#include "ir/parse.h"

#include "ir/print.h"
#include "ir/rule.h"
#include "ir/verify.h"
#include "model/presets.h"
#include "tests/every_family.h"

namespace tessera::compile {
namespace {

model::ModelConfig tiny(model::Family family) {
  model::ModelConfig m;
  model::apply_family(family, m);
  m.layers = 3;
  m.hidden = 32;
  m.heads = 4;
  m.vocabulary = 96;
  m.vocabulary_multiple = 32;
  m.context = 16;
  if (family == model::Family::kGpt2) m.tied_embeddings = true;
  if (model::rule_of(family).supports_gqa) m.kv_heads = 2;
  if (model::rule_of(family).has_encoder) m.encoder_layers = 2;
  model::derive_sizes(m);
  return m;
}

CompileRequest request(model::Family family, ProgramKind kind) {
  CompileRequest r;
  r.model = tiny(family);
  r.kind = kind;
  r.sequences = 2;
  r.tokens = kind == ProgramKind::kDecode ? 1 : 16;
  if (model::rule_of(family).has_encoder) r.encoder_tokens = 24;
  r.microbatches = kind == ProgramKind::kTrain ? 3 : 1;
  return r;
}

// A target that wants workspaces and packed weights of everything, as some libraries do.
Target demanding() {
  Target t;
  t.workspace_bytes = [](const Op&, ValueSpan) { return int64_t{192}; };
  t.packed_bytes = [](const Op&, ValueSpan) { return int64_t{320}; };
  return t;
}

void expect_sound(const CompileRequest& r, const Target& target) {
  const Program p = compile(r, target);
  for (const std::string& finding : tessera::verify(p)) ADD_FAILURE() << finding;
  for (const Finding& f : check({&p})) ADD_FAILURE() << f.kind << ": " << f.text;
  EXPECT_GE(p.bytes, p.live_bytes);
  EXPECT_LE(static_cast<double>(p.bytes), 1.05 * static_cast<double>(p.live_bytes));
}

struct Option {
  const char* name;
  void (*set)(CompileRequest&);
};

const Option kOptions[] = {
    {"default", [](CompileRequest&) {}},
    {"bf16", [](CompileRequest& r) { r.precision = Precision::kBf16; }},
    {"selective", [](CompileRequest& r) { r.layout.recompute = "selective"; }},
    {"full", [](CompileRequest& r) { r.layout.recompute = "full"; }},
    {"full:2", [](CompileRequest& r) { r.layout.recompute = "full:2"; }},
    {"fp8", [](CompileRequest& r) { r.options.gemm_dtype = GemmDType::kFp8; }},
    {"unfused attention", [](CompileRequest& r) { r.options.attention = AttentionKind::kUnfused; }},
    {"unfused", [](CompileRequest& r) { r.options.cross_entropy = CrossEntropyKind::kUnfused; }},
    {"separate",
     [](CompileRequest& r) { r.options.fuse_bias_gelu = r.options.fuse_residual_norm = false; }},
    {"dropout", [](CompileRequest& r) { r.model.dropout = r.model.attention_dropout = 0.1; }},
    {"unfused attention, dropout",
     [](CompileRequest& r) {
       r.model.dropout = r.model.attention_dropout = 0.1;
       r.options.attention = AttentionKind::kUnfused;
       r.layout.recompute = "selective";
     }},
    {"half scores, attention again",
     [](CompileRequest& r) {
       r.precision = Precision::kBf16;
       r.model.dropout = r.model.attention_dropout = 0.1;
       r.options.attention = AttentionKind::kUnfused;
       r.options.attention_scores_dtype = AttentionScoresDType::kCompute;
       r.options.selective_recompute = SelectiveRecompute::kCoreAttention;
       r.layout.recompute = "selective";
     }},
    {"masks kept",
     [](CompileRequest& r) {
       r.model.dropout = r.model.attention_dropout = 0.1;
       r.options.attention = AttentionKind::kUnfused;
       r.options.dropout_masks = DropoutMaskPolicy::kStore;
     }},
    {"masks kept, attention again",
     [](CompileRequest& r) {
       r.model.dropout = r.model.attention_dropout = 0.1;
       r.options.attention = AttentionKind::kUnfused;
       r.options.dropout_masks = DropoutMaskPolicy::kStore;
       r.options.selective_recompute = SelectiveRecompute::kCoreAttention;
       r.layout.recompute = "selective";
     }},
    {"half gradients",
     [](CompileRequest& r) {
       r.precision = Precision::kFp16;
       r.options.grad_accum_dtype = GradAccumDType::kWeight;
     }},
    {"half gradients, accumulated apart, unfused",
     [](CompileRequest& r) {
       r.precision = Precision::kBf16;
       r.options.grad_accum_dtype = GradAccumDType::kWeight;
       r.options.fuse_grad_accumulation = false;
       r.options.cross_entropy = CrossEntropyKind::kUnfused;
     }},
    {"layers again to their end",
     [](CompileRequest& r) {
       r.options.full_recompute = FullRecompute::kAll;
       r.layout.recompute = "full";
     }},
    {"chunks of one stage",
     [](CompileRequest& r) {
       r.layout.pipeline_schedule = PipelineSchedule::kInterleaved1F1B;
       r.layout.interleave = 2;
     }},
    {"serial residual", [](CompileRequest& r) { r.model.parallel_residual = false; }},
};

TEST(Compile, EveryOptionOfEveryFamilyIsSound) {
  for (const model::Family family : every_family())
    for (const Option& option : kOptions) {
      SCOPED_TRACE(fmt::format("family {} {}", static_cast<int>(family), option.name));
      CompileRequest r = request(family, ProgramKind::kTrain);
      option.set(r);
      if (model::rule_of(family).has_encoder) r.options.attention = AttentionKind::kFused;
      expect_sound(r, Target());
      expect_sound(r, demanding());
    }
}

TEST(Compile, EveryPurposeIsSound) {
  for (const model::Family family : every_decoder())
    for (const ProgramKind kind :
         {ProgramKind::kValidate, ProgramKind::kLogits, ProgramKind::kDecode}) {
      SCOPED_TRACE(
          fmt::format("family {} purpose {}", static_cast<int>(family), static_cast<int>(kind)));
      expect_sound(request(family, kind), demanding());
    }
  for (const ProgramKind kind :
       {ProgramKind::kValidate, ProgramKind::kLogits, ProgramKind::kDecode})
    expect_sound(request(model::Family::kT5, kind), demanding());
}

// Behind its encoder a decoder finds all state, caches too, where the encoder's program has it.
TEST(Compile, DecodingGoesOnWithoutTheEncoder) {
  CompileRequest r = request(model::Family::kT5, ProgramKind::kDecode);
  const Program first = compile(r, demanding());
  r.reuse_encoder_output = true;
  expect_sound(r, demanding());
  const Program next = compile(r, demanding());
  EXPECT_EQ(first.state_bytes, next.state_bytes);
  for (const Call& c : next.schedule)
    EXPECT_EQ(next.segment(c).name().find("encoder"), std::string::npos) << next.segment(c).name();
  EXPECT_LT(next.schedule.size(), first.schedule.size());
}

TEST(Compile, TextReadsBack) {
  const Program p = compile(request(model::Family::kGpt2, ProgramKind::kTrain), demanding());
  const std::string text = tessera::print(p);
  EXPECT_EQ(tessera::print(parse_program(text, "program")), text);
}

TEST(Compile, StateAgreesBetweenTrainingAndValidation) {
  CompileRequest train = request(model::Family::kNeox, ProgramKind::kTrain);
  CompileRequest validate = request(model::Family::kNeox, ProgramKind::kValidate);
  validate.optimizer_state = true;
  const Program a = compile(train, Target()), b = compile(validate, Target());
  int shared = 0;
  for (const Buffer& x : a.buffers)
    for (const Buffer& y : b.buffers)
      if (x.state && a.kind(x.kind).name == b.kind(y.kind).name && x.layer == y.layer &&
          x.microbatch == y.microbatch) {
        EXPECT_EQ(x.offset, y.offset) << a.kind(x.kind).name;
        ++shared;
      }
  EXPECT_GT(shared, 10);
}

// Large enough that activations decide, not scratch.
CompileRequest sizable(model::Family family, int64_t layers, int64_t hidden, int64_t sequences,
                       int64_t tokens) {
  CompileRequest r;
  model::apply_family(family, r.model);
  r.model.layers = layers;
  r.model.hidden = hidden;
  r.model.heads = 4;
  r.model.vocabulary = 4096;
  r.model.context = tokens;
  r.model.tied_embeddings = family == model::Family::kGpt2;
  model::derive_sizes(r.model);
  r.sequences = sequences;
  r.tokens = tokens;
  return r;
}

// The head needs the most scratch, as with whole chunks of logits, when few activations are alive.
Target large_head() {
  Target t;
  t.workspace_bytes = [](const Op& op, ValueSpan) {
    return op.is<LinearCrossEntropy>() ? int64_t{16} << 20 : int64_t{4096};
  };
  return t;
}

TEST(Compile, TheArenaIsHardlyLargerThanTheLiveSet) {
  constexpr int64_t kSizes[][4] = {// layers, hidden, sequences, tokens
                                   {4, 64, 8, 64},
                                   {12, 64, 8, 64},
                                   {12, 128, 16, 128},
                                   {24, 128, 1, 1024},
                                   {12, 512, 4, 256}};
  for (const model::Family family : every_decoder())
    for (const auto& [layers, hidden, sequences, tokens] : kSizes)
      for (const char* recompute : {"none", "selective", "full", "full:2"})
        for (const int64_t microbatches : {1, 3})
          for (const Target& target : {Target(), demanding(), large_head()}) {
            CompileRequest r = sizable(family, layers, hidden, sequences, tokens);
            r.layout.recompute = recompute;
            r.microbatches = microbatches;
            SCOPED_TRACE(fmt::format("family {} layers {} hidden {} batch {} x {} {} micro {}",
                                     static_cast<int>(family), layers, hidden, sequences, tokens,
                                     recompute, microbatches));
            expect_sound(r, target);
          }
}

TEST(Compile, FullRecomputationKeepsOnlyInputs) {
  CompileRequest r = sizable(model::Family::kNeox, 12, 64, 8, 64);
  const Program none = compile(r, Target());
  r.layout.recompute = "selective";
  const Program selective = compile(r, Target());
  r.layout.recompute = "full";
  const Program full = compile(r, Target());
  EXPECT_LT(selective.bytes, none.bytes);
  EXPECT_LT(full.bytes, selective.bytes);
}

// Layers of a decoder cost more than an encoder's, so the decoder's stage gets fewer.
TEST(Compile, StagesAreCutByWhatTheirLayersCost) {
  CompileRequest r = request(model::Family::kT5, ProgramKind::kTrain);
  r.model.encoder_layers = r.model.layers = 6;
  r.tokens = r.encoder_tokens = 16;
  r.layout.pipeline = 2;
  std::vector<int64_t> layers;
  for (const Program& p : compile_stages(r, Target())) {
    std::set<std::string> held;
    for (const Buffer& f : p.buffers)
      if (p.kind(f.kind).name == "encoder.weights" || p.kind(f.kind).name == "decoder.weights")
        held.insert(fmt::format("{} {}", p.kind(f.kind).name, f.layer));
    layers.push_back(static_cast<int64_t>(held.size()));
  }
  EXPECT_EQ(layers[0] + layers[1], 12);
  EXPECT_GT(layers[0], layers[1]);
}

// The first layers cost more than the others, so the first stage gets fewer.
TEST(Compile, StagesAreCutByWhatLayersOfSeveralKindsCost) {
  CompileRequest r = request(model::Family::kLlama, ProgramKind::kTrain);
  r.model.layers = 8;
  r.model.wide_layers = {0, 1};
  r.model.wide_feed_forward = 8 * r.model.feed_forward;
  r.layout.pipeline = 2;
  std::vector<std::set<int64_t>> held;
  for (const Program& p : compile_stages(r, Target())) {
    held.emplace_back();
    for (const Buffer& f : p.buffers) {
      const std::string& kind = p.kind(f.kind).name;
      if (kind != "layer.weights" && kind != "layer_wide.weights") continue;
      EXPECT_TRUE(held.back().insert(f.layer).second) << "layer " << f.layer;
    }
  }
  EXPECT_EQ(held[0].size() + held[1].size(), 8U);
  EXPECT_LT(held[0].size(), held[1].size());
  EXPECT_EQ(*held[1].begin(), static_cast<int64_t>(held[0].size()));
}

TEST(Compile, RefusesWhatItCannotRun) {
  CompileRequest r = request(model::Family::kNeox, ProgramKind::kTrain);
  r.layout.tensor = 3;
  EXPECT_THROW(compile(r, Target()), Error);
  r.layout.tensor = 1;
  r.layout.recompute = "full:9";
  EXPECT_THROW(compile(r, Target()), Error);
  r = request(model::Family::kT5, ProgramKind::kTrain);
  r.options.attention = AttentionKind::kUnfused;
  EXPECT_THROW(compile(r, Target()), Error);
}

// The layer's forward after all passes, as a person reads it.
std::string layer_forward(model::Family family) {
  const Program p = compile(request(family, ProgramKind::kTrain), Target());
  std::string ops;
  for (const Segment& s : p.segments)
    if (s.name() == "forward.layer")
      for (const Op& op : s.ops) ops += std::string(name_of(op.kind())) + " ";
  return ops;
}

TEST(Compile, LayersAreFused) {
  EXPECT_EQ(layer_forward(model::Family::kNeox),
            "norm matmul sum rotary attention matmul norm matmul gelu matmul sum ");
  EXPECT_EQ(layer_forward(model::Family::kLlama),
            "rms_norm matmul rotary attention matmul rms_norm matmul gated_activation matmul sum ");
}

Fp8Format format_of(const Op& op) {
  if (op.is<Matmul>()) return op.as<Matmul>().fp8;
  return op.is<MatmulGradInput>() ? op.as<MatmulGradInput>().fp8 : op.as<MatmulGradWeight>().fp8;
}

// Products of layers: what the first operand is rounded to, by kind; nothing where it is as stored.
std::map<OpKind, std::set<std::string>> formats_of(const CompileRequest& r) {
  std::map<OpKind, std::set<std::string>> formats;
  const Program p = compile(r, {});
  for (const Segment& s : p.segments)
    for (const Op& op : s.ops)
      if (cost_of(op, p.values).work == Work::kProduct)
        formats[op.kind()].insert(name_of_entry(format_of(op)));
  return formats;
}

TEST(EightBits, GradientsHaveTheWiderRange) {
  CompileRequest r = request(model::Family::kGpt2, ProgramKind::kTrain);
  r.options.gemm_dtype = GemmDType::kFp8;
  const auto all = formats_of(r);
  EXPECT_EQ(all.at(kind_of<Matmul>()), std::set<std::string>{"e4m3"});
  EXPECT_EQ(all.at(kind_of<MatmulGradInput>()), std::set<std::string>{"e5m2"});
  EXPECT_EQ(all.at(kind_of<MatmulGradWeight>()), std::set<std::string>{"e5m2"});
}

TEST(EightBits, TheHeadAndOddExtentsKeepTheirType) {
  CompileRequest r = request(model::Family::kGpt2, ProgramKind::kTrain);
  r.options.gemm_dtype = GemmDType::kFp8;
  r.options.cross_entropy = CrossEntropyKind::kUnfused;  // the head's product is one, too
  EXPECT_EQ(formats_of(r).at(kind_of<Matmul>()), (std::set<std::string>{"e4m3", "stored"}));
  r.sequences = 1;
  r.tokens = 8;
  for (const auto& [kind, formats] : formats_of(r))
    EXPECT_EQ(formats, std::set<std::string>{"stored"});
}

}  // namespace
}  // namespace tessera::compile
