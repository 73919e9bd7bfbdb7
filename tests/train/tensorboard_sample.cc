// Writes what a run of 10 steps writes that died after step 8, was resumed from step 5 and ended:
// scripts/check_tensorboard.py reads it with TensorBoard's own reader.
#include <array>
#include <cstdio>

#include "train/tensorboard.h"

namespace {

void write_session(const tessera::Path& folder, int64_t first, int64_t last, double offset) {
  tessera::train::TensorBoardFile file(folder, first, 1.7e9 + offset);
  for (int64_t step = first; step <= last; ++step) {
    const std::array<tessera::train::TensorBoardFile::Scalar, 2> scalars = {
        {{"train/loss", static_cast<double>(step) + offset}, {"train/grad_norm", 0.5}}};
    file.add(step, 1.7e9 + offset + static_cast<double>(step), scalars);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: tensorboard_sample FOLDER\n", stderr);
    return 2;
  }
  write_session(argv[1], 1, 8, 0);
  write_session(argv[1], 6, 10, 100);
  return 0;
}
