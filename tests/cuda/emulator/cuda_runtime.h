// What of CUDA's runtime and of its device language our code uses, for the host compiler: kernels
// run on the CPU, each thread of a block as a fiber, barriers and shuffles included, so that tests
// can execute them where there is no device. Streams run late and in an order that is drawn from
// those that events allow (streams.h); what the driver refuses is refused.
#pragma once

#include <math.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#define __global__
#define __device__
#define __host__
#define __shared__  // all of it is the launch's: see launch.h
#define __forceinline__ inline
#define __launch_bounds__(threads)

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3() = default;
  explicit dim3(unsigned a, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  uint32_t x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
inline uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w) { return {x, y, z, w}; }

namespace cuda_emulator {

void block_barrier();
void warp_barrier();
uint64_t& slot(int lane);  // of the own warp
int own_lane();

// All lanes of the warp take part, as the masks of our kernels say.
void check_whole_warp();

template <class T>
T exchange(T x, int from) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  check_whole_warp();
  std::memcpy(&slot(own_lane()), &x, sizeof(T));
  warp_barrier();
  T got;
  std::memcpy(&got, &slot(from), sizeof(T));
  warp_barrier();
  return got;
}

void run_blocks(dim3 grid, dim3 block, size_t shared_bytes, const std::function<void()>& thread);

}  // namespace cuda_emulator

inline void __syncthreads() { cuda_emulator::block_barrier(); }
template <class T>
T __shfl_xor_sync(unsigned, T x, int mask) {
  return cuda_emulator::exchange(x, cuda_emulator::own_lane() ^ mask);
}
template <class T>
T __shfl_sync(unsigned, T x, int from) {
  return cuda_emulator::exchange(x, from);
}
unsigned __ballot_sync(unsigned mask, bool x);
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __float2int_rn(float x) { return static_cast<int>(lrintf(x)); }
inline float __uint_as_float(uint32_t x) {
  float y;
  std::memcpy(&y, &x, 4);
  return y;
}
inline uint32_t __float_as_uint(float x) {
  uint32_t y;
  std::memcpy(&y, &x, 4);
  return y;
}

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInitializationError = 3,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorNotReady = 600,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorStreamCaptureImplicit = 906,
  cudaErrorCapturedEvent = 907
};
const char* cudaGetErrorString(cudaError_t code);
inline const char* cudaGetErrorName(cudaError_t) { return "emulated"; }
cudaError_t cudaGetLastError();  // and forgets it

using cudaStream_t = struct EmulatedStream*;
using cudaEvent_t = struct EmulatedEvent*;
using cudaGraph_t = struct EmulatedGraph*;
using cudaGraphNode_t = void*;
struct cudaGraphEdgeData;
enum cudaStreamCaptureStatus { cudaStreamCaptureStatusNone, cudaStreamCaptureStatusActive };
using cudaGraphExec_t = struct EmulatedGraph*;
enum cudaMemcpyKind { cudaMemcpyDefault };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2,
                   cudaHostRegisterPortable = 1;

struct cudaUUID_t {
  char bytes[16];
};
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  int major, minor, multiProcessorCount;
};

cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaMalloc(void** p, size_t bytes);
cudaError_t cudaFree(void* p);
cudaError_t cudaHostRegister(void* p, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void* p);
cudaError_t cudaMemset(void* p, int byte, size_t bytes);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags);
cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* graph);
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t s, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** nodes, const cudaGraphEdgeData** edges,
                                     size_t* count);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t cudaEventSynchronize(cudaEvent_t e);
cudaError_t cudaEventQuery(cudaEvent_t e);
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t s);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t s);
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t bytes, size_t rows, cudaMemcpyKind kind, cudaStream_t s);
cudaError_t cudaMemsetAsync(void* p, int byte, size_t bytes, cudaStream_t s);
cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute what, int value);
inline cudaError_t cudaDriverGetVersion(int* version) { return *version = 0, cudaSuccess; }
inline cudaError_t cudaRuntimeGetVersion(int* version) { return *version = 0, cudaSuccess; }

struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  cudaStream_t stream;
};

namespace cuda_emulator {
cudaError_t enqueue(cudaStream_t s, std::function<void()> work);
bool is_forked();  // a child of the process that the device is of
cudaError_t check_launch(const cudaLaunchConfig_t& config, const void* kernel);
}  // namespace cuda_emulator

template <class Args>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* c, void (*kernel)(Args),
                               const Args& args) {
  const cudaLaunchConfig_t config = *c;
  const cudaError_t code =
      cuda_emulator::check_launch(config, reinterpret_cast<const void*>(kernel));
  if (code != cudaSuccess) return code;
  return cuda_emulator::enqueue(config.stream, [config, kernel, args] {
    cuda_emulator::run_blocks(config.gridDim, config.blockDim, config.dynamicSmemBytes,
                              [&] { kernel(args); });
  });
}
