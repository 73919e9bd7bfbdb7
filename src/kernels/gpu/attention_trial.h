// cuDNN's attention tried against our own kernels on drawn operands: whether it computes the same,
// and how long both take.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/gpu/cudnn.h"

namespace tessera::kernels::gpu {

// An attention by cuDNN, in runs.
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

// What two kernels may differ by, in ulps of the type (2^-7 of bf16): a row of D numbers by this
// much of its length, and a bit of the rows' usual length, as a row's own may be near zero; all
// rows together by that much of theirs. A row that was not written, or masked by one key more, is
// far outside.
constexpr double kRowUlps = 4, kWholeUlps = 1, kUsualShare = 0.05;
// Of logarithms of sums; products of 16-bit numbers are exact in f32.
constexpr double kLseBound = 2e-3;

// Two arrays of rows of `d` numbers of the type, of which every `slots` rows the first `queries`
// are queries' and the others of kinds of their own. Says where the first that differs too much
// stands; empty: none.
struct RowKinds {
  int64_t d = 0, slots = 1, queries = 1;
};
std::string difference(DType type, const RowKinds& kinds, std::span<const std::byte> got,
                       std::span<const std::byte> want);

// The result of fault() for a plan that is not deterministic.
inline constexpr const char* kOtherBits = "its bits differ from one run to the next";

// Operands of a shape in memory of the device, with what our own kernels make of them. Throws Error
// where there is no room.
class AttentionTrial {
 public:
  explicit AttentionTrial(const AttentionShape& shape);

  // Why a plan that was built is not to be taken, for people; empty: it is good. Throws Error where
  // it cannot run.
  std::string fault(const DnnRuns& runs, size_t plan);
  // As fastest_product() chooses: candidate 0 is our own kernels, the others are the plans, which
  // had no fault. A plan that cannot be in a graph never wins.
  FastestProduct fastest(const DnnRuns* runs, const std::vector<size_t>& plans,
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
