// What the stand-in for cuDNN (cudnn.cc) does wrong, as a test wants it.
#pragma once

#include <cstdint>

namespace cuda_emulator {

struct DnnConduct {
  bool absent = false;   // it is not installed
  bool refuses = false;  // it has no plan for anything
  bool breaks = false;   // plans run and fail
  bool wrong = false;    // of the last query the last key is not seen
  bool varies = false;   // the bits are others every time
  int64_t workspace_of_head = 64;
  int64_t runs = 0;  // counted
};
extern DnnConduct dnn_conduct;

}  // namespace cuda_emulator
