// The table of foreign values, and the search in it. The values are those of PyTorch's dtypes,
// Hugging Face's TrainingArguments and model configurations, Lightning's Trainer, DeepSpeed and
// Megatron-LM.
//
// Values are compared in lower case with '-' as '_', so bf16-mixed and BF16_Mixed are one entry.
// The advice names one of our keys and a value, and states the difference if there is one: a
// user who copies it should get what the other program would have done, or read what differs.
#include "config/foreign_keys.h"

#include <algorithm>
#include <cctype>

namespace tessera::config {
namespace {

constexpr std::string_view kFp32 = "use `precision: fp32`",
                           kBf16 = "use `precision: bf16`, which keeps f32 master weights",
                           kFp16 = "use `precision: fp16`, which keeps f32 master weights",
                           kFp8 = "use `compiler.gemm_dtype: fp8` with `precision: bf16`",
                           kAdamW = "use `optimizer.kind: adamw`",
                           kAdamW8 =
                               "use `optimizer.kind: adamw` with `optimizer.moment_dtype: 8bit`",
                           kLion8 =
                               "use `optimizer.kind: lion` with `optimizer.moment_dtype: 8bit`",
                           kSgd8 =
                               "use `optimizer.kind: sgd` with `optimizer.beta1: 0.9` and "
                               "`optimizer.moment_dtype: 8bit`",
                           k8Bit = "use `optimizer.moment_dtype: 8bit`",
                           kSelective = "use `layout.recompute: selective` or `full`",
                           kFused = "use `compiler.attention: fused`",
                           kUnfused = "use `compiler.attention: unfused`",
                           kCuda = "use `run.device: cuda`";

constexpr ForeignValue kValues[] = {
    {"precision", "fp8", kFp8},
    {"precision", "float8", kFp8},
    {"precision", "e4m3", kFp8},
    {"precision", "hybrid", kFp8},
    {"precision", "float32", kFp32},
    {"precision", "float", kFp32},
    {"precision", "f32", kFp32},
    {"precision", "32", kFp32},
    {"precision", "32_true", kFp32},
    {"precision", "full", kFp32},
    {"precision", "no", kFp32},
    {"precision", "none", kFp32},
    {"precision", "tf32", "use `precision: fp32` with `run.tf32: true`"},
    {"precision", "bfloat16", kBf16},
    {"precision", "bf16_mixed", kBf16},
    {"precision", "bf16_true",
     "use `precision: bf16_sr`, whose weights have no f32 copy, or `precision: bf16`, which keeps "
     "one"},
    {"precision", "mixed",
     "use `precision: bf16` or `precision: fp16`; both keep f32 master weights"},
    {"precision", "amp",
     "use `precision: bf16` or `precision: fp16`; both keep f32 master weights"},
    {"precision", "float16", kFp16},
    {"precision", "half", kFp16},
    {"precision", "16", kFp16},
    {"precision", "16_mixed", kFp16},
    {"precision", "fp16_mixed", kFp16},
    {"optimizer.kind", "adam", "use `optimizer.kind: adamw` with `optimizer.weight_decay: 0`"},
    {"optimizer.kind", "adamw_torch", kAdamW},
    {"optimizer.kind", "adamw_torch_fused", kAdamW},
    {"optimizer.kind", "adamw_hf", kAdamW},
    {"optimizer.kind", "fusedadam", kAdamW},
    {"optimizer.kind", "adamw_8bit", kAdamW8},
    {"optimizer.kind", "adamw_bnb_8bit", kAdamW8},
    {"optimizer.kind", "adamw8bit", kAdamW8},
    {"optimizer.kind", "adam_8bit", kAdamW8},
    {"optimizer.kind", "adam8bit", kAdamW8},
    {"optimizer.kind", "adamw_torch_8bit", kAdamW8},
    {"optimizer.kind", "ao_adamw_8bit", kAdamW8},
    {"optimizer.kind", "paged_adamw_8bit",
     "use `optimizer.kind: adamw` with `optimizer.moment_dtype: 8bit`, and `layout.offload: "
     "optimizer` for state in the host's memory"},
    {"optimizer.kind", "lion_8bit", kLion8},
    {"optimizer.kind", "lion8bit", kLion8},
    {"optimizer.kind", "paged_lion_8bit",
     "use `optimizer.kind: lion` with `optimizer.moment_dtype: 8bit`, and `layout.offload: "
     "optimizer` for state in the host's memory"},
    {"optimizer.kind", "sgd_8bit", kSgd8},
    {"optimizer.kind", "sgd8bit", kSgd8},
    {"optimizer.moment_dtype", "8", k8Bit},
    {"optimizer.moment_dtype", "int8", k8Bit},
    {"optimizer.moment_dtype", "uint8", k8Bit},
    {"optimizer.moment_dtype", "u8", k8Bit},
    {"optimizer.moment_dtype", "8_bit", k8Bit},
    {"optimizer.moment_dtype", "32", "use `optimizer.moment_dtype: fp32`"},
    {"optimizer.moment_dtype", "f32", "use `optimizer.moment_dtype: fp32`"},
    {"optimizer.moment_dtype", "float32", "use `optimizer.moment_dtype: fp32`"},
    {"optimizer.moment_dtype", "bfloat16", "use `optimizer.moment_dtype: bf16`"},
    {"optimizer.kind", "momentum", "use `optimizer.kind: sgd` with `optimizer.momentum`"},
    {"schedule.kind", "cosine_with_min_lr",
     "use `schedule.kind: cosine` with `schedule.min_lr_ratio`"},
    {"schedule.kind", "constant_with_warmup", "use `schedule.kind: constant`"},
    {"schedule.kind", "linear_with_warmup", "use `schedule.kind: linear`"},
    {"schedule.kind", "cosine_with_warmup", "use `schedule.kind: cosine`"},
    {"schedule.kind", "inverse_square_root", "use `schedule.kind: inverse_sqrt`"},
    {"schedule.kind", "warmup_stable_decay", "use `schedule.kind: wsd`"},
    {"layout.recompute", "true", kSelective},
    {"layout.recompute", "false", "use `layout.recompute: none`"},
    {"layout.recompute", "uniform", "use `layout.recompute: full`"},
    {"layout.recompute", "block", "use `layout.recompute: full:N`"},
    {"compiler.attention", "flash", kFused},
    {"compiler.attention", "flash_attention_2", kFused},
    {"compiler.attention", "flash_attention_3", kFused},
    {"compiler.attention", "sdpa", kFused},
    {"compiler.attention", "xformers", kFused},
    {"compiler.attention", "eager", kUnfused},
    {"run.device", "gpu", kCuda},
    {"run.device", "cuda:0",
     "use `run.device: cuda`, and CUDA_VISIBLE_DEVICES to choose among the GPUs"},
};

std::string text_of(const Tree& value) {
  const std::string* text = value.as_string();
  std::string out = text ? *text : to_json(value);
  for (char& c : out)
    c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

std::span<const ForeignValue> foreign_values() { return kValues; }

std::string foreign_value_advice(std::string_view key, const Tree& value) {
  if (value.as_list() || value.as_members()) return {};
  const std::string text = text_of(value);
  const auto* const found =
      std::find_if(std::begin(kValues), std::end(kValues),
                   [&](const ForeignValue& v) { return v.key == key && v.value == text; });
  if (found == std::end(kValues)) return {};
  std::string advice(found->advice);
  std::erase(advice, '`');
  return advice;
}

}  // namespace tessera::config
