#include "train/trained_part.h"

#include <gtest/gtest.h>

namespace tessera::train {
namespace {

TEST(TrainedPart, FrozenPatternsNameAllLayers) {
  config::RunConfig c;
  c.optimizer.freeze = {"layer.mlp.*", "embed.weight"};
  EXPECT_FALSE(trains(c, "layer0.mlp.up.weight"));
  EXPECT_FALSE(trains(c, "layer12.mlp.up.weight"));
  EXPECT_FALSE(trains(c, "embed.weight"));
  EXPECT_TRUE(trains(c, "layer12.norm1.weight"));
  EXPECT_TRUE(trains(c, "head.weight"));
}

TEST(TrainedPart, AdaptersAloneAreTrained) {
  config::RunConfig c;
  EXPECT_TRUE(trains(c, "layer0.attn.qkv.weight"));
  c.lora.rank = 8;
  EXPECT_TRUE(trains(c, "layer0.attn.qkv.lora_a"));
  EXPECT_FALSE(trains(c, "layer0.attn.qkv.weight"));
  c.precision = compile::Precision::kFp32;
  EXPECT_EQ(trained_line(c, 30e3, 710e3), "trains    0.03 of 0.71 M parameters (LoRA of rank 8)");
  c.precision = compile::Precision::kBf16;
  EXPECT_EQ(trained_line(c, 30e3, 710e3),
            "trains    0.03 of 0.71 M parameters (LoRA of rank 8, frozen weights rounded to bf16)");
  c.lora.quantize = compile::Quantization::kNf4;
  EXPECT_EQ(
      trained_line(c, 30e3, 710e3),
      "trains    0.03 of 0.71 M parameters (LoRA of rank 8, linear layers in 4 bits, the rest "
      "rounded to bf16)");
}

}  // namespace
}  // namespace tessera::train
