#include "kernels/kernel_choices.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tessera::kernels {
namespace {

const std::string kMachine = "a card sm_90 cuBLASLt 130000";

MatmulShape shape(int64_t m) {
  return {.m = m, .n = 768, .k = 64, .transpose_b = true, .a = DType::kBF16, .b = DType::kBF16};
}

GemmChoice choice(uint64_t first) {
  return {{first, 2, 0, 0xffffffffffffffffu, 5, 6, 7, 8}, 1 << 20, 1.25e-5};
}

TEST(KernelChoices, WhatIsWrittenIsReadBack) {
  KernelChoices a(kMachine);
  a.add(shape(8), choice(1));
  a.add(shape(16), choice(9));
  EXPECT_TRUE(a.changed());
  KernelChoices b(kMachine);
  EXPECT_TRUE(b.read(a.text(), "f").empty());
  EXPECT_FALSE(b.changed());
  EXPECT_EQ(b.size(), 2);
  ASSERT_NE(b.find(shape(16)), nullptr);
  EXPECT_EQ(*b.find(shape(16)), choice(9));
  EXPECT_EQ(b.find(shape(24)), nullptr);
  EXPECT_EQ(b.text(), a.text());
}

TEST(KernelChoices, EveryPartOfAShapeCounts) {
  KernelChoices all(kMachine);
  all.add(shape(8), choice(1));
  MatmulShape other = shape(8);
  for (const auto& change : std::vector<std::function<void(MatmulShape&)>>{
           [](MatmulShape& s) { s.n = 1; }, [](MatmulShape& s) { s.k = 1; },
           [](MatmulShape& s) { s.transpose_a = true; },
           [](MatmulShape& s) { s.transpose_b = false; },
           [](MatmulShape& s) { s.accumulate = true; }, [](MatmulShape& s) { s.a = DType::kF16; },
           [](MatmulShape& s) { s.b = DType::kF16; }, [](MatmulShape& s) { s.c = DType::kBF16; },
           [](MatmulShape& s) { s.batch = 2; }, [](MatmulShape& s) { s.lda = 99; },
           [](MatmulShape& s) { s.ldb = 99; }, [](MatmulShape& s) { s.ldc = 9999; },
           [](MatmulShape& s) { s.stride_a = 9; }, [](MatmulShape& s) { s.stride_b = 9; },
           [](MatmulShape& s) { s.stride_c = 9; }, [](MatmulShape& s) { s.alpha = 0.5f; },
           [](MatmulShape& s) { s.fp8_a = Fp8::kE4M3; },
           [](MatmulShape& s) { s.fp8_b = Fp8::kE5M2; }}) {
    MatmulShape changed = other;
    change(changed);
    EXPECT_EQ(all.find(changed), nullptr) << gemm_text(changed);
  }
}

TEST(KernelChoices, AnotherMachinesAreKeptAndNotTaken) {
  KernelChoices a(kMachine), b("another card");
  a.add(shape(8), choice(1));
  EXPECT_TRUE(b.read(a.text(), "f").empty());
  EXPECT_EQ(b.find(shape(8)), nullptr);
  EXPECT_EQ(b.size(), 0);
  b.add(shape(8), choice(3));
  KernelChoices again(kMachine);
  again.read(b.text(), "f");
  ASSERT_NE(again.find(shape(8)), nullptr);
  EXPECT_EQ(*again.find(shape(8)), choice(1));
}

// Any one character changed: the line is named, and the others stand.
TEST(KernelChoices, ADamagedLineIsNamedAndDropped) {
  KernelChoices a(kMachine);
  a.add(shape(8), choice(1));
  a.add(shape(16), choice(9));
  const std::string text = a.text();
  const size_t first = text.find('\n') + 1, second = text.find('\n', first) + 1;
  for (size_t i = second; i + 1 < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = damaged[i] == '7' ? '8' : '7';
    KernelChoices b(kMachine);
    const std::vector<std::string> said = b.read(damaged, "kernel_selection.txt");
    ASSERT_EQ(said.size(), 1u) << damaged;
    EXPECT_TRUE(said[0].starts_with("kernel_selection.txt:3: ")) << said[0];
    EXPECT_EQ(b.size(), 1);
  }
}

TEST(KernelChoices, ATextThatIsCutOrNoneIsNamed) {
  KernelChoices a(kMachine);
  a.add(shape(8), choice(1));
  const std::string text = a.text();
  for (size_t end = 0; end + 1 < text.size(); ++end) {
    KernelChoices b(kMachine);
    const std::vector<std::string> said = b.read(text.substr(0, end), "f");
    const bool header_alone = end == text.find('\n') || end == text.find('\n') + 1;
    EXPECT_EQ(said.size(), header_alone ? 0u : 1u) << end;
    EXPECT_EQ(b.size(), 0) << end;
  }
}

TEST(FastestGemm, TheBestOfTheRoundsCounts) {
  // The third is fast but once, when the second is disturbed.
  const std::vector<std::vector<double>> times = {{9, 8, 9}, {20, 5, 6}, {7, 7, 4}};
  std::vector<size_t> turn(3, 0);
  const FastestGemm f = fastest_gemm(3, [&](size_t i) { return times[i][turn[i]++]; });
  EXPECT_EQ(f.index, 2u);
  EXPECT_EQ(f.seconds, 4);
}

TEST(FastestGemm, ALittleIsNoReason) {
  EXPECT_EQ(fastest_gemm(2, [](size_t i) { return i == 0 ? 1.0 : 0.985; }).index, 0u);
  EXPECT_EQ(fastest_gemm(2, [](size_t i) { return i == 0 ? 1.0 : 0.975; }).index, 1u);
}

TEST(FastestGemm, WhatCannotRunIsNotTaken) {
  const auto second_alone = [](size_t i) { return i == 1 ? 1.0 : NAN; };
  EXPECT_EQ(fastest_gemm(3, second_alone).index, 1u);
  EXPECT_EQ(fastest_gemm(2, [](size_t) { return NAN; }).index, 0u);
}

const AttentionChoice kPlan = {"eng6_k24=26", 4, 25, 210125056, 3.5e-4};

TEST(KernelChoices, AttentionStandsBesideProducts) {
  KernelChoices a(kMachine);
  a.add(shape(8), choice(1));
  a.add_attention("cuDNN 91900 b=4 bf16", kPlan);
  a.add_attention("cuDNN 91900 b=8 bf16", {.seconds = 1e-5});
  KernelChoices b(kMachine);
  EXPECT_TRUE(b.read(a.text(), "f").empty());
  EXPECT_EQ(b.text(), a.text());
  EXPECT_EQ(b.size(), 3);
  EXPECT_EQ(b.attention_count(), std::pair(int64_t{2}, int64_t{1}));
  ASSERT_NE(b.find_attention("cuDNN 91900 b=4 bf16"), nullptr);
  EXPECT_EQ(*b.find_attention("cuDNN 91900 b=4 bf16"), kPlan);
  EXPECT_TRUE(b.find_attention("cuDNN 91900 b=8 bf16")->own());
  EXPECT_EQ(b.find_attention("cuDNN 92000 b=4 bf16"), nullptr);
  ASSERT_NE(b.find(shape(8)), nullptr);
}

// Another version's file has no line of attention; its products are taken.
TEST(KernelChoices, AFileWithoutAttentionIsRead) {
  KernelChoices a(kMachine), b(kMachine);
  a.add(shape(8), choice(1));
  EXPECT_EQ(a.text().find("attention"), std::string::npos);
  EXPECT_TRUE(b.read(a.text(), "f").empty());
  EXPECT_EQ(b.find_attention("cuDNN 91900 b=4 bf16"), nullptr);
}

TEST(KernelChoices, ADamagedLineOfAttentionIsNamed) {
  KernelChoices a(kMachine);
  a.add_attention("cuDNN 91900 b=4 bf16", kPlan);
  const std::string text = a.text();
  for (size_t i = text.find('\n') + 1; i + 1 < text.size(); ++i) {
    std::string damaged = text;
    damaged[i] = damaged[i] == '7' ? '8' : '7';
    KernelChoices b(kMachine);
    const std::vector<std::string> said = b.read(damaged, "kernel_selection.txt");
    ASSERT_EQ(said.size(), 1u) << damaged;
    EXPECT_TRUE(said[0].starts_with("kernel_selection.txt:2: ")) << said[0];
    EXPECT_EQ(b.size(), 0);
  }
}

}  // namespace
}  // namespace tessera::kernels
