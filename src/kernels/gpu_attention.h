// Attention on a GPU, prepared for one shape: by our own kernels (kernels/attention.h), or by cuDNN
// if a measurement on this GPU found it to be faster and to compute the same results.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/attention.h"
#include "kernels/kernel.h"
#include "kernels/kernel_choices.h"
#include "tensor/gpu.h"

namespace tessera::kernels {

// The cuDNN library. The constructors open it and throw Error if it is not installed, or if the
// program was built without the headers of its frontend.
class CudaDnn {
 public:
  // Uses the device of this process.
  CudaDnn();
  // Uses a GPU that this machine need not have, described by cuDNN's JSON text and by its compute
  // capability (90). Its plans can be listed but not run.
  CudaDnn(std::string_view card, int architecture);
  ~CudaDnn();
  CudaDnn(const CudaDnn&) = delete;
  CudaDnn& operator=(const CudaDnn&) = delete;

  int64_t version() const;  // library version: 91900

  struct Handle;
  const Handle& handle() const { return *handle_; }

 private:
  std::unique_ptr<Handle> handle_;
};

struct AttentionShape {
  int64_t b = 1, t = 1, s = 1;  // samples, queries, keys
  int64_t kv = 1, g = 1, d = 64;
  DType dtype = DType::kBF16;
  bool apart = false;  // keys and values are in a separate array, [B, S, KV, 2, D]
  bool causal = true;
  bool documents = false;  // as in AttentionScope; at most one of documents and padding
  bool padding = false;
  bool gradient = false;
  float scale = 1;
  bool operator==(const AttentionShape&) const = default;
};

// Returns the text of a shape: "b=4 t=1024 s=1024 kv=25 g=1 d=64 scale=0.125 causal gradient bf16".
std::string attention_text(const AttentionShape& shape);

// The inputs of the choice between cuDNN and our own kernels. Our own are used if there is no
// library, and for a shape without a stored choice if there is no clock.
struct AttentionChoosing {
  const CudaDnn* dnn = nullptr;
  KernelChoices* choices = nullptr;
  std::function<double()> now_s;  // clock, with which shapes without a choice are measured
  std::function<void(const std::string&)> say;  // receives the reason if cuDNN is not used
};

class GpuAttention final : public PreparedKernel {
 public:
  // Returns true if cuDNN may support the shape: a 16-bit type, and d a multiple of 8 and at most
  // 128.
  static bool may_choose(const AttentionShape& shape);

  // A measurement first compares the results of cuDNN and our own kernels on random operands: a
  // plan is rejected if it differs by more than rounding errors, or if its bits differ between
  // runs. The device must have free memory for the operands. The library and the choices of
  // `choosing` must outlive this object.
  GpuAttention(const AttentionShape& shape, const AttentionChoosing& choosing);
  ~GpuAttention() override;

  bool by_library() const;
  int64_t workspace_bytes() const override;
  // Operands are those of kernels/attention.h with this shape, without dropout and biases.
  void run(const Launch& l, const AttentionArgs& a) const;
  void run(const Launch& l, const AttentionGradArgs& a) const;

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace tessera::kernels
