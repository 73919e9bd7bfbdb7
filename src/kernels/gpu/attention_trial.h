// Compares cuDNN's attention with our own kernels on random operands: results first, then times.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/gpu/cudnn.h"

namespace tessera::kernels::gpu {

// Attention by cuDNN, as one or several runs of its plan.
struct DnnRuns {
  DnnParts parts;
  std::unique_ptr<DnnAttention> dnn;

  DnnRuns(DnnParts p, const CudaDnn& library)
      : parts(p), dnn(std::make_unique<DnnAttention>(parts.run_shape(), library)) {}
  template <class Kernel>
  void run(Stream s, size_t plan, const Kernel& a, void* workspace) const {
    for (int64_t i = 0; i < parts.runs(); ++i) dnn->run(s, plan, parts.operands(a, i), workspace);
  }
};

// Tolerances of the difference between two kernels, in ulps of the type (2^-7 for bf16). A row of D
// numbers may differ by kRowUlps ulps of its length plus kUsualShare of the usual length (the row
// may be near zero), all rows together by kWholeUlps ulps of their length. A row that was not
// written, or was masked by one more key, exceeds the tolerances by far.
constexpr double kRowUlps = 4, kWholeUlps = 1, kUsualShare = 0.05;
// Tolerance of log-sum-exps; the product of two 16-bit numbers is exact in f32.
constexpr double kLseBound = 2e-3;

// Compares two arrays of rows of `d` numbers. Of every `slots` rows, the first `queries` are those
// of queries, and each of the others is a separate kind. Returns a message for the first row that
// differs too much; empty if there is none.
struct RowKinds {
  int64_t d = 0, slots = 1, queries = 1;
};
std::string difference(DType type, const RowKinds& kinds, std::span<const std::byte> got,
                       std::span<const std::byte> want);

// The result of fault() for a plan that is not deterministic.
inline constexpr const char* kOtherBits = "its bits differ from one run to the next";

// Random operands of a shape in device memory, and the results of our own kernels for them. Throws
// Error if there is not enough memory.
class AttentionTrial {
 public:
  explicit AttentionTrial(const AttentionShape& shape);

  // Returns the reason to reject a built plan; empty if the plan is good. Throws Error if it cannot
  // run.
  std::string fault(const DnnRuns& runs, size_t plan);
  // Returns the choice of fastest_gemm(): candidate 0 is our own kernels, the others are
  // `plans`, for which fault() was empty. A plan that cannot be captured in a graph never
  // wins.
  FastestGemm fastest(const DnnRuns* runs, const std::vector<size_t>& plans,
                      const std::function<double()>& now_s);

 private:
  TensorView draw(const std::string& name, Shape shape, int64_t queries, float factor);
  TensorView take(const std::string& name, DType type, Shape shape);
  TensorView send_labels(const std::string& name, const std::vector<int32_t>& labels);
  TensorView draw_documents();
  TensorView draw_padding();
  void clear_last(const TensorView& v) const;
  void run_own(Stream s) const;
  void run_dnn(Stream s, const DnnRuns& runs, size_t plan) const;
  void poison(Stream s) const;
  std::vector<std::vector<std::byte>> written(Stream s) const;
  std::string compare(const std::vector<std::vector<std::byte>>& got) const;
  void require_workspace(int64_t bytes);

  AttentionShape shape_;
  std::vector<DeviceBuffer> memory_;
  DeviceBuffer workspace_;
  AttentionArgs forward_;
  AttentionGradArgs gradient_;
  GpuStream stream_;
  std::vector<std::vector<std::byte>> own_;
};

}  // namespace tessera::kernels::gpu
