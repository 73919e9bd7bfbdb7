// The platform of the tests (src/tensor/platform/cuda/gpu_runtime.h has the manual): kernels run on
// the CPU, each thread of a block as a fiber, barriers and shuffles included, so that tests can
// execute them where there is no device. Streams run late and in an order that is drawn from those
// that events allow (streams.h); what the driver refuses is refused.
#pragma once

#include <math.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include "base/dtype.h"

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

// CHECKs that all 32 lanes of the warp take part.
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
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __float2int_rn(float x) { return static_cast<int>(lrintf(x)); }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fadd_rn(float a, float b) { return a + b; }
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

inline uint32_t atomicMax(uint32_t* at, uint32_t x) {
  const std::atomic_ref<uint32_t> shared(*at);
  uint32_t old = shared.load();
  while (old < x && !shared.compare_exchange_weak(old, x)) {
  }
  return old;
}

enum gpuError_t {
  gpuSuccess = 0,
  gpuErrorInvalidValue = 1,
  gpuErrorMemoryAllocation = 2,
  gpuErrorInitializationError = 3,
  gpuErrorInvalidConfiguration = 9,
  gpuErrorNotReady = 600,
  gpuErrorStreamCaptureUnsupported = 900,
  gpuErrorStreamCaptureUnjoined = 904,
  gpuErrorStreamCaptureIsolation = 905,
  gpuErrorStreamCaptureImplicit = 906,
  gpuErrorCapturedEvent = 907
};
const char* gpuGetErrorString(gpuError_t code);
inline const char* gpuGetErrorName(gpuError_t) { return "emulated"; }
gpuError_t gpuGetLastError();  // and forgets it

using gpuStream_t = struct EmulatedStream*;
using gpuEvent_t = struct EmulatedEvent*;
using gpuGraph_t = struct EmulatedGraph*;
using gpuGraphNode_t = void*;
enum gpuStreamCaptureStatus { gpuStreamCaptureStatusNone, gpuStreamCaptureStatusActive };
using gpuGraphExec_t = struct EmulatedGraph*;
enum gpuMemcpyKind { gpuMemcpyDefault };
enum gpuStreamCaptureMode { gpuStreamCaptureModeThreadLocal };
enum gpuFuncAttribute { gpuFuncAttributeMaxDynamicSharedMemorySize };
constexpr unsigned gpuStreamNonBlocking = 1, gpuEventDefault = 0, gpuEventDisableTiming = 2,
                   gpuHostRegisterPortable = 1;

struct gpuUUID_t {
  char bytes[16];
};
struct gpuDeviceProp {
  char name[256];
  gpuUUID_t uuid;
  int major, minor, multiProcessorCount;
};

gpuError_t gpuGetDeviceCount(int* count);
gpuError_t gpuSetDevice(int device);
gpuError_t gpuGetDeviceProperties(gpuDeviceProp* p, int device);
gpuError_t gpuMemGetInfo(size_t* free, size_t* total);
gpuError_t gpuMalloc(void** p, size_t bytes);
gpuError_t gpuFree(void* p);
gpuError_t gpuHostRegister(void* p, size_t bytes, unsigned flags);
gpuError_t gpuHostUnregister(void* p);
gpuError_t gpuMemset(void* p, int byte, size_t bytes);
gpuError_t gpuStreamCreateWithFlags(gpuStream_t* s, unsigned flags);
gpuError_t gpuStreamDestroy(gpuStream_t s);
gpuError_t gpuStreamSynchronize(gpuStream_t s);
gpuError_t gpuStreamWaitEvent(gpuStream_t s, gpuEvent_t e, unsigned flags);
gpuError_t gpuStreamBeginCapture(gpuStream_t s, gpuStreamCaptureMode mode);
gpuError_t gpuStreamEndCapture(gpuStream_t s, gpuGraph_t* graph);
gpuError_t gpuStreamGetCaptureInfo(gpuStream_t s, gpuStreamCaptureStatus* status,
                                   gpuGraph_t* graph);
gpuError_t gpuEventElapsedTime(float* milliseconds, gpuEvent_t from, gpuEvent_t to);
gpuError_t gpuEventCreateWithFlags(gpuEvent_t* e, unsigned flags);
gpuError_t gpuEventDestroy(gpuEvent_t e);
gpuError_t gpuEventRecord(gpuEvent_t e, gpuStream_t s);
gpuError_t gpuEventSynchronize(gpuEvent_t e);
gpuError_t gpuEventQuery(gpuEvent_t e);
gpuError_t gpuGraphGetNodes(gpuGraph_t graph, gpuGraphNode_t* nodes, size_t* count);
gpuError_t gpuGraphInstantiate(gpuGraphExec_t* executable, gpuGraph_t graph,
                               unsigned long long flags);
gpuError_t gpuGraphDestroy(gpuGraph_t graph);
gpuError_t gpuGraphExecDestroy(gpuGraphExec_t executable);
gpuError_t gpuGraphLaunch(gpuGraphExec_t executable, gpuStream_t s);
gpuError_t gpuMemcpyAsync(void* to, const void* from, size_t bytes, gpuMemcpyKind kind,
                          gpuStream_t s);
gpuError_t gpuMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                            size_t bytes, size_t rows, gpuMemcpyKind kind, gpuStream_t s);
gpuError_t gpuMemsetAsync(void* p, int byte, size_t bytes, gpuStream_t s);
gpuError_t gpuFuncSetAttribute(const void* kernel, gpuFuncAttribute what, int value);
inline gpuError_t gpuDriverGetVersion(int* version) { return *version = 0, gpuSuccess; }
inline gpuError_t gpuRuntimeGetVersion(int* version) { return *version = 0, gpuSuccess; }

struct gpuLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes;
  gpuStream_t stream;
};

namespace cuda_emulator {
gpuError_t enqueue(gpuStream_t s, std::function<void()> work);
bool is_forked();  // a child of the process that the device is of
gpuError_t check_launch(const gpuLaunchConfig_t& config, const void* kernel);
}  // namespace cuda_emulator

template <class Args>
gpuError_t gpuLaunchKernelEx(const gpuLaunchConfig_t* c, void (*kernel)(Args), const Args& args) {
  const gpuLaunchConfig_t config = *c;
  const gpuError_t code =
      cuda_emulator::check_launch(config, reinterpret_cast<const void*>(kernel));
  if (code != gpuSuccess) return code;
  return cuda_emulator::enqueue(config.stream, [config, kernel, args] {
    cuda_emulator::run_blocks(config.gridDim, config.blockDim, config.dynamicSmemBytes,
                              [&] { kernel(args); });
  });
}

namespace tessera {

template <class T>
T shuffle(T x, int lane) {
  return cuda_emulator::exchange(x, lane);
}
template <class T>
T shuffle_xor(T x, int mask) {
  return cuda_emulator::exchange(x, cuda_emulator::own_lane() ^ mask);
}
uint32_t ballot(bool x);

inline uint16_t bf16_from_float(float x) { return BF16(x).bits; }
inline uint16_t f16_from_float(float x) { return F16(x).bits; }
inline float float_from_f16(uint16_t bits) {
  F16 x;
  x.bits = bits;
  return static_cast<float>(x);
}

}  // namespace tessera
