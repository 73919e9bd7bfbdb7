// The experts on a GPU (kernels/experts.h), enqueued in a stream. The host reads nothing back: the
// device computes the table of tiles, and the kernels run over the maximum number of tiles.
#pragma once

#include "kernels/experts.h"

namespace tessera::kernels {

class GpuExperts final : public Experts {
 public:
  explicit GpuExperts(const ExpertsShape& shape) : shape_(shape) {}

  int64_t workspace_bytes() const override;
  void run(const Launch& l, const ExpertsOperands& operands) const override;

 private:
  ExpertsShape shape_;
};

}  // namespace tessera::kernels
