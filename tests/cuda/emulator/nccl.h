// The part of NCCL's interface that our code uses, and the behavior of its stand-in (nccl.cc).
#pragma once

#include <climits>
#include <cstdint>
#include <string>

#include "gpu_runtime.h"

enum ncclResult_t {
  ncclSuccess = 0,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7
};
enum ncclDataType_t { ncclUint8 = 1 };
struct ncclUniqueId {
  char internal[128];
};
using ncclComm_t = struct EmulatedComm*;

#define NCCL_VERSION(X, Y, Z) ((X)*10000 + (Y)*100 + (Z))
struct ncclConfig_t {
  int maxCTAs;
};
#define NCCL_CONFIG_INITIALIZER \
  { INT_MIN }

ncclResult_t ncclGetVersion(int* version);
ncclResult_t ncclGetUniqueId(ncclUniqueId* id);
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state);
ncclResult_t ncclGroupStart();
ncclResult_t ncclGroupEnd();
ncclResult_t ncclSend(const void* data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, gpuStream_t stream);
ncclResult_t ncclRecv(void* data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      gpuStream_t stream);
const char* ncclGetErrorString(ncclResult_t code);

namespace cuda_emulator {

struct NcclConduct {
  int version = NCCL_VERSION(2, 28, 9);
  bool refuses_sends = false;  // the next one fails
  // Counted.
  int joined = 0, finalized = 0, destroyed = 0, aborted = 0, open_groups = 0;
  int most_blocks = 0;  // the last that was asked for
};
extern NcclConduct nccl_conduct;

}  // namespace cuda_emulator
