// Attention on a GPU as it is prepared for a shape: by our own kernels (kernels/attention.h), or by
// cuDNN where that was measured to be faster on this very card and to compute the same.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/attention.h"
#include "kernels/kernel.h"
#include "kernels/product_choices.h"
#include "tensor/gpu.h"

namespace tessera::kernels {

// cuDNN, opened when this is made. Throws Error where it is not installed, or where the program was
// built without the headers of its frontend.
class CudaDnn {
 public:
  // Of the device of this process.
  CudaDnn();
  // Of a card that need not be here, described as cuDNN itself describes one (a text in JSON) and
  // by its compute capability (90): what it would take can be asked; nothing runs.
  CudaDnn(std::string_view card, int architecture);
  ~CudaDnn();
  CudaDnn(const CudaDnn&) = delete;
  CudaDnn& operator=(const CudaDnn&) = delete;

  int64_t version() const;  // of the library: 91900

  struct Handle;
  const Handle& handle() const { return *handle_; }

 private:
  std::unique_ptr<Handle> handle_;
};

struct AttentionShape {
  int64_t b = 1, t = 1, s = 1;  // samples, queries, keys
  int64_t kv = 1, g = 1, d = 64;
  DType dtype = DType::kBF16;
  bool apart = false;  // keys and values of another sequence, [B, S, KV, 2, D]
  bool causal = true;
  bool documents = false;  // AttentionScope's, as is padding; at most one of both
  bool padding = false;
  bool gradient = false;
  float scale = 1;
  bool operator==(const AttentionShape&) const = default;
};

// "b=4 t=1024 s=1024 kv=25 g=1 d=64 scale=0.125 causal gradient bf16".
std::string attention_text(const AttentionShape& shape);

// How attention of a shape is chosen. Without a library, or where neither a choice is known nor a
// clock is there, it is our own.
struct AttentionChoosing {
  const CudaDnn* dnn = nullptr;
  ProductChoices* choices = nullptr;
  std::function<double()> now_s;                // with it, shapes without a choice are measured
  std::function<void(const std::string&)> say;  // hears why cuDNN is not taken for a shape
};

class GpuAttention final : public PreparedKernel {
 public:
  // What cuDNN may be asked for: two bytes a number, rows of at most 128 of them in eights.
  static bool may_choose(const AttentionShape& shape);

  // Measuring compares cuDNN's numbers with our own kernels' first, on drawn operands: one plan
  // that differs by more than rounding, or in its bits from one run to the next, is not taken. The
  // device's memory must have room for the operands. `choosing`'s library and choices outlive it.
  GpuAttention(const AttentionShape& shape, const AttentionChoosing& choosing);
  ~GpuAttention() override;

  bool by_library() const;
  int64_t workspace_bytes() const override;
  // Operands as in kernels/attention.h, of the shape; without dropout and biases.
  void run(const Launch& l, const AttentionArgs& a) const;
  void run(const Launch& l, const AttentionGradArgs& a) const;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace tessera::kernels
