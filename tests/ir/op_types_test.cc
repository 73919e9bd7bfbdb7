// Ops as types: the list of types and the kinds, how attributes are printed and parsed, where
// operands are.
#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/operands.h"
#include "ir/parse.h"
#include "ir/print.h"
#include "tests/ir/sample_program.h"

namespace tessera::testing {
namespace {

template <class... Ts>
std::vector<OpKind> kinds_of(TypeList<Ts...>) {
  return {kind_of<Ts>()...};
}
template <class... Ts>
std::vector<std::string_view> names_of(TypeList<Ts...>) {
  return {Ts::kName...};
}

TEST(OpTypes, TheKindIsTheIndexInTheList) {
  const std::vector<OpKind> kinds = kinds_of(OpTypes());
  const std::vector<std::string_view> names = names_of(OpTypes());
  ASSERT_EQ(kinds.size(), static_cast<size_t>(kOpKinds));
  for (size_t k = 0; k < kinds.size(); ++k) {
    EXPECT_EQ(static_cast<size_t>(kinds[k]), k) << names[k];
    EXPECT_EQ(name_of(kinds[k]), names[k]);
    EXPECT_EQ(op_kind_named(names[k]), kinds[k]) << names[k];
    const OpAttributes attributes = default_attributes(kinds[k]);
    EXPECT_EQ(attributes.index(), k) << names[k];
    EXPECT_EQ(kind_of(attributes), kinds[k]) << names[k];
  }
}

TEST(OpTypes, AnOpIsOneOfThem) {
  Op op;
  op.attributes = Rotary{.dims = 8};
  EXPECT_EQ(op.kind(), kind_of<Rotary>());
  EXPECT_TRUE(op.is<Rotary>());
  EXPECT_FALSE(op.is<Attention>());
  EXPECT_EQ(op.as<Rotary>().dims, 8);
  op.as<Rotary>().inverse = true;
  EXPECT_TRUE(op.if_as<Rotary>()->inverse);
  EXPECT_EQ(op.if_as<Attention>(), nullptr);
  EXPECT_DEATH(op.as<Attention>(), "rotary, not attention");
}

// The text of the attributes of an op, as the op of a segment.
std::string text_of(const OpAttributes& attributes) {
  Program p = sample_program();
  p.segments[SegmentId(0)].ops[0].attributes = attributes;
  const std::string text = print(p), begin = "    report = ";
  const size_t at = text.find(begin) + begin.size();
  return text.substr(at, text.find(" : ", at) - at);
}

TEST(OpTypes, DefaultsAreNotPrintedUnlessAlways) {
  EXPECT_EQ(text_of(Matmul{}), "matmul () contract=1");
  EXPECT_EQ(text_of(Matmul{2, 0.5, DType::kF32, Fp8Format::kE5M2}),
            "matmul () contract=2 scale=0.5 out=\"f32\" fp8=\"e5m2\"");
  EXPECT_EQ(text_of(NormGrad{}), "norm_grad ()");
  EXPECT_EQ(text_of(NormGrad{.add = true, .accum_dtype = DType::kBF16}),
            "norm_grad () add=1 accum_dtype=\"bf16\"");
  EXPECT_EQ(text_of(Attention{.scale = 2}), "attention () scale=2.0");
  EXPECT_EQ(text_of(AttentionGrad{{.separate_kv = true, .mask = Mask::kPadding}, DType::kF16}),
            "attention_grad () scale=1.0 separate_kv=1 mask=\"padding\" accum_dtype=\"f16\"");
  EXPECT_EQ(text_of(Receive{AdjacentStage::kNext, DType::kF16, {2, 4}}),
            "receive () from=\"next\" type=\"f16\" shape=\"2x4\"");
  EXPECT_EQ(text_of(Squares{BufferKindId(0)}), "squares () members=\"layer.weights\"");
  EXPECT_EQ(text_of(Squares{}), "squares ()");
}

// Some fields belong together: a default is printed where another one is not at its default.
TEST(OpTypes, SomeDefaultsArePrintedWithOthers) {
  EXPECT_EQ(text_of(Norm{.epsilon = 0.5}), "norm () epsilon=0.5");
  EXPECT_EQ(text_of(Norm{0.5, 2, 0}), "norm () epsilon=0.5 terms=2 biases=0");
  EXPECT_EQ(text_of(Norm{0.5, 1, 1}), "norm () epsilon=0.5 terms=1 biases=1");
  EXPECT_EQ(text_of(Rotary{.dims = 8, .base = 2}), "rotary () dims=8 base=2.0");
  EXPECT_EQ(text_of(Rotary{
                .dims = 8, .base = 2, .scaling = RopeScaling::kLlama3, .factor = 8, .context = 64}),
            "rotary () dims=8 base=2.0 scaling=\"llama3\" factor=8.0 low=1.0 high=4.0 context=64");
  const GroupRef over = GroupRef::along({AxisKind::kShard});
  EXPECT_EQ(text_of(AllReduce{.over = over}), "all_reduce () over=\"shard\"");
  EXPECT_EQ(text_of(AllReduce{.over = over, .pieces = 2}),
            "all_reduce () over=\"shard\" pieces=2 piece=0");
}

// Changes a field to a value that is not its default.
struct Change {
  void operator()(bool& x) const { x = true; }
  void operator()(int64_t& x) const { x = 3; }
  void operator()(double& x) const { x = 0.3; }
  void operator()(std::vector<double>& x) const { x = {0.5, 0.3}; }
  void operator()(DType& t) const { t = DType::kF16; }
  void operator()(std::optional<DType>& t) const { t = DType::kF16; }
  void operator()(Shape& s) const { s = {2, 4}; }
  void operator()(GroupRef& g) const { g = GroupRef::world(); }
  void operator()(BufferKindId& k) const { k = BufferKindId(3); }
  template <class E>
  requires std::is_enum_v<E>
  void operator()(E& e) const { e = static_cast<E>(1); }
};

// All attributes at once.
TEST(OpTypes, EveryOpComesBackFromItsText) {
  for (int k = 0; k < kOpKinds; ++k) {
    Program p = sample_program();
    OpAttributes& a = p.segments[SegmentId(0)].ops[0].attributes;
    a = default_attributes(static_cast<OpKind>(k));
    EXPECT_TRUE(parse_program(print(p), "text") == p) << print(p);
    std::visit(
        []<class A>(A& attributes) {
          A::fields(attributes, [](const char*, auto& field, Print when = {}, const Range& = {}) {
            if (when != Print::kNever) Change()(field);
          });
        },
        a);
    EXPECT_TRUE(parse_program(print(p), "text") == p) << print(p);
  }
}

// The parser derives what is not printed.
TEST(OpTypes, SumsOfGradientsAreKnownByTheirOrigin) {
  Program p = sample_program();
  Op& op = p.segments[SegmentId(0)].ops[0];
  op.attributes = Sum{.terms = 2, .of_gradients = true};
  op.origin = "gradient";
  EXPECT_TRUE(parse_program(print(p), "text") == p);
}

void expect_error(const OpAttributes& attributes, const std::string& from, const std::string& to,
                  const std::string& error) {
  Program p = sample_program();
  p.segments[SegmentId(0)].ops[0].attributes = attributes;
  std::string text = print(p);
  const size_t at = text.find(from, text.find("report = "));
  ASSERT_NE(at, std::string::npos) << text;
  text.replace(at, from.size(), to);
  try {
    parse_program(text, "p.txt");
    FAIL() << "no error for " << to;
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), error);
  }
}

TEST(OpTypes, WrongAttributesAreErrorsWithAPlace) {
  expect_error(Matmul{}, "contract=1", "contract=1 terms=2",
               "p.txt:19:35: found 'terms', expected an attribute of matmul (contract, scale, out, "
               "fp8)");
  expect_error(Embedding{}, "() :", "() scale=2.0 :",
               "p.txt:19:27: found 'scale', expected an attribute of embedding (it has none)");
  expect_error(Sum{}, "terms=1", "of_gradients=1",
               "p.txt:19:21: found 'of_gradients', expected an attribute of sum (terms)");
  expect_error(Matmul{}, "contract=1", "contract=1.5",
               "p.txt:19:33: found '1.5', expected a whole number");
  expect_error(NormGrad{.add = true}, "add=1", "add=2", "p.txt:19:31: found '2', expected 0 or 1");
  expect_error(Cast{}, "\"f32\"", "\"f33\"",
               "p.txt:19:25: found 'f33', expected an element type in quotes");
  expect_error(Gelu{}, "\"erf\"", "\"silu\"",
               "p.txt:19:27: found 'silu', expected one of erf|tanh");
  expect_error(MarkShared{GroupRef::world()}, "\"world\"", "\"wrold\"",
               "p.txt:19:34: found 'wrold', expected a group of ranks");
  expect_error(Receive{.shape = {2, 4}}, "\"2x4\"", "\"2x\"",
               "p.txt:19:58: found '2x', expected extents such as \"2x64x768\"");
  expect_error(Squares{BufferKindId(0)}, "\"layer.weights\"", "\"layer.wieghts\"",
               "p.txt:19:33: found 'layer.wieghts', expected a buffer kind");
}

// Every combination of the operands that attention may have.
template <class A>
void expect_slots(const A& a, const Attention& of, int first) {
  Op op;
  op.attributes = a;
  int next = first;
  const auto expect = [&](typename A::In slot, bool has) {
    const int place = has ? next++ : kNone;
    EXPECT_EQ(place_of(op, slot), place) << A::kName << " slot " << slot;
    if (has) op.inputs.resize(static_cast<size_t>(next));
    if (has) op.inputs.back() = ValueId(100 + slot);
    EXPECT_EQ(input(op, slot), has ? ValueId(100 + slot) : ValueId()) << A::kName << " " << slot;
  };
  op.inputs.resize(static_cast<size_t>(first));
  expect(A::kKv, of.separate_kv);
  expect(A::kBias, of.bias_distance > 0);
  if constexpr (requires { A::kMask; }) {
    expect(A::kMask, of.mask != Mask::kNothing);
    expect(A::kSamples, of.dropout > 0);
    expect(A::kStep, of.dropout > 0);
  }
  EXPECT_EQ(input_count(a), static_cast<size_t>(next)) << A::kName;
}

TEST(Operands, OfAttentionInEveryCombination) {
  for (const bool separate_kv : {false, true})
    for (const int64_t distance : {0, 128})
      for (const Mask mask : {Mask::kNothing, Mask::kDocuments, Mask::kPadding})
        for (const double dropout : {0.0, 0.1}) {
          const Attention a = {.separate_kv = separate_kv,
                               .bias_distance = distance,
                               .mask = mask,
                               .dropout = dropout};
          expect_slots(a, a, 1);
          const AttentionGrad grad = {a};
          expect_slots(grad, a, 4);
          EXPECT_EQ(output_index(grad, AttentionGrad::kDKv), separate_kv ? 1 : kNone);
          const int bias = separate_kv ? 2 : 1;
          EXPECT_EQ(output_index(grad, AttentionGrad::kDBias), distance > 0 ? bias : kNone);
          const CachedAttention cached = {.separate_kv = separate_kv, .bias_distance = distance};
          expect_slots(cached, a, 2);
        }
}

TEST(Operands, OfListsComeFirstAndLast) {
  const Norm norm = {.terms = 2, .biases = 1};
  EXPECT_EQ(input_index(norm, Norm::kTerms), 0);
  EXPECT_EQ(input_index(norm, Norm::kBiases), 2);
  EXPECT_EQ(input_index(norm, Norm::kGain), 3);
  EXPECT_EQ(input_index(norm, Norm::kBias), 4);
  EXPECT_EQ(input_index(Norm{}, Norm::kBiases), kNone);
  EXPECT_EQ(output_index(Norm{}, Norm::kSum), kNone);
  EXPECT_EQ(output_index(norm, Norm::kSum), 2);
  EXPECT_EQ(input_index(Sum{.terms = 3}, Sum::kBiases), 3);
  EXPECT_EQ(input_index(Rotary{}, Rotary::kPositions), 1);
}

}  // namespace
}  // namespace tessera::testing
