// The runtime and the device language of the GPU, under vendor-neutral names: those of CUDA, with
// `gpu` instead of `cuda`. The include path of the build selects the header: this one is for CUDA,
// and the tests have another (tests/cuda/emulator). A function does the same as the CUDA function
// of that name unless a comment states otherwise.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

using gpuError_t = cudaError_t;
using gpuDeviceProp = cudaDeviceProp;
using gpuUUID_t = cudaUUID_t;
using gpuStream_t = cudaStream_t;
using gpuEvent_t = cudaEvent_t;
using gpuGraph_t = cudaGraph_t;
using gpuGraphExec_t = cudaGraphExec_t;
using gpuGraphNode_t = cudaGraphNode_t;
using gpuLaunchConfig_t = cudaLaunchConfig_t;
using gpuMemcpyKind = cudaMemcpyKind;
using gpuFuncAttribute = cudaFuncAttribute;
using gpuStreamCaptureMode = cudaStreamCaptureMode;
using gpuStreamCaptureStatus = cudaStreamCaptureStatus;

constexpr gpuError_t gpuSuccess = cudaSuccess;
constexpr gpuError_t gpuErrorNotReady = cudaErrorNotReady;
constexpr gpuError_t gpuErrorInvalidConfiguration = cudaErrorInvalidConfiguration;
constexpr unsigned gpuStreamNonBlocking = cudaStreamNonBlocking;
constexpr unsigned gpuEventDefault = cudaEventDefault;
constexpr unsigned gpuEventDisableTiming = cudaEventDisableTiming;
constexpr unsigned gpuHostRegisterPortable = cudaHostRegisterPortable;
constexpr gpuMemcpyKind gpuMemcpyDefault = cudaMemcpyDefault;
constexpr gpuFuncAttribute gpuFuncAttributeMaxDynamicSharedMemorySize =
    cudaFuncAttributeMaxDynamicSharedMemorySize;
constexpr gpuStreamCaptureMode gpuStreamCaptureModeThreadLocal = cudaStreamCaptureModeThreadLocal;
constexpr gpuStreamCaptureStatus gpuStreamCaptureStatusNone = cudaStreamCaptureStatusNone;
constexpr gpuStreamCaptureStatus gpuStreamCaptureStatusActive = cudaStreamCaptureStatusActive;

inline gpuError_t gpuGetLastError() { return cudaGetLastError(); }
inline const char* gpuGetErrorName(gpuError_t code) { return cudaGetErrorName(code); }
inline const char* gpuGetErrorString(gpuError_t code) { return cudaGetErrorString(code); }

inline gpuError_t gpuDriverGetVersion(int* version) { return cudaDriverGetVersion(version); }
inline gpuError_t gpuRuntimeGetVersion(int* version) { return cudaRuntimeGetVersion(version); }
inline gpuError_t gpuGetDeviceCount(int* count) { return cudaGetDeviceCount(count); }
inline gpuError_t gpuSetDevice(int device) { return cudaSetDevice(device); }
inline gpuError_t gpuGetDeviceProperties(gpuDeviceProp* p, int device) {
  return cudaGetDeviceProperties(p, device);
}

inline gpuError_t gpuMemGetInfo(size_t* free, size_t* total) { return cudaMemGetInfo(free, total); }
inline gpuError_t gpuMalloc(void** p, size_t bytes) { return cudaMalloc(p, bytes); }
inline gpuError_t gpuFree(void* p) { return cudaFree(p); }
inline gpuError_t gpuHostRegister(void* p, size_t bytes, unsigned flags) {
  return cudaHostRegister(p, bytes, flags);
}
inline gpuError_t gpuHostUnregister(void* p) { return cudaHostUnregister(p); }
inline gpuError_t gpuMemset(void* p, int byte, size_t bytes) { return cudaMemset(p, byte, bytes); }
inline gpuError_t gpuMemsetAsync(void* p, int byte, size_t bytes, gpuStream_t s) {
  return cudaMemsetAsync(p, byte, bytes, s);
}
inline gpuError_t gpuMemcpyAsync(void* to, const void* from, size_t bytes, gpuMemcpyKind kind,
                                 gpuStream_t s) {
  return cudaMemcpyAsync(to, from, bytes, kind, s);
}
inline gpuError_t gpuMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                                   size_t bytes, size_t rows, gpuMemcpyKind kind, gpuStream_t s) {
  return cudaMemcpy2DAsync(to, to_pitch, from, from_pitch, bytes, rows, kind, s);
}

inline gpuError_t gpuStreamCreateWithFlags(gpuStream_t* s, unsigned flags) {
  return cudaStreamCreateWithFlags(s, flags);
}
inline gpuError_t gpuStreamDestroy(gpuStream_t s) { return cudaStreamDestroy(s); }
inline gpuError_t gpuStreamSynchronize(gpuStream_t s) { return cudaStreamSynchronize(s); }
inline gpuError_t gpuStreamWaitEvent(gpuStream_t s, gpuEvent_t e, unsigned flags) {
  return cudaStreamWaitEvent(s, e, flags);
}
inline gpuError_t gpuEventCreateWithFlags(gpuEvent_t* e, unsigned flags) {
  return cudaEventCreateWithFlags(e, flags);
}
inline gpuError_t gpuEventDestroy(gpuEvent_t e) { return cudaEventDestroy(e); }
inline gpuError_t gpuEventRecord(gpuEvent_t e, gpuStream_t s) { return cudaEventRecord(e, s); }
inline gpuError_t gpuEventSynchronize(gpuEvent_t e) { return cudaEventSynchronize(e); }
inline gpuError_t gpuEventQuery(gpuEvent_t e) { return cudaEventQuery(e); }
inline gpuError_t gpuEventElapsedTime(float* milliseconds, gpuEvent_t from, gpuEvent_t to) {
  return cudaEventElapsedTime(milliseconds, from, to);
}

inline gpuError_t gpuStreamBeginCapture(gpuStream_t s, gpuStreamCaptureMode mode) {
  return cudaStreamBeginCapture(s, mode);
}
inline gpuError_t gpuStreamEndCapture(gpuStream_t s, gpuGraph_t* graph) {
  return cudaStreamEndCapture(s, graph);
}
// Writes whether the stream is part of a capture, and the graph of that capture.
inline gpuError_t gpuStreamGetCaptureInfo(gpuStream_t s, gpuStreamCaptureStatus* status,
                                          gpuGraph_t* graph) {
  return cudaStreamGetCaptureInfo(s, status, nullptr, graph, nullptr, nullptr, nullptr);
}
inline gpuError_t gpuGraphGetNodes(gpuGraph_t graph, gpuGraphNode_t* nodes, size_t* count) {
  return cudaGraphGetNodes(graph, nodes, count);
}
inline gpuError_t gpuGraphInstantiate(gpuGraphExec_t* executable, gpuGraph_t graph,
                                      unsigned long long flags) {
  return cudaGraphInstantiate(executable, graph, flags);
}
inline gpuError_t gpuGraphDestroy(gpuGraph_t graph) { return cudaGraphDestroy(graph); }
inline gpuError_t gpuGraphExecDestroy(gpuGraphExec_t e) { return cudaGraphExecDestroy(e); }
inline gpuError_t gpuGraphLaunch(gpuGraphExec_t e, gpuStream_t s) { return cudaGraphLaunch(e, s); }

inline gpuError_t gpuFuncSetAttribute(const void* kernel, gpuFuncAttribute what, int value) {
  return cudaFuncSetAttribute(kernel, what, value);
}
template <class Args>
gpuError_t gpuLaunchKernelEx(const gpuLaunchConfig_t* config, void (*kernel)(Args),
                             const Args& args) {
  return cudaLaunchKernelEx(config, kernel, args);
}

namespace tessera {

// Exchanges between the lanes of a warp; all 32 lanes participate. These are templates because the
// host compiler reads this header too and does not have the intrinsics.
template <class T>
__device__ T shuffle(T x, int lane) {
  return __shfl_sync(0xffffffffu, x, lane);
}
template <class T>
__device__ T shuffle_xor(T x, int mask) {
  return __shfl_xor_sync(0xffffffffu, x, mask);
}
// Returns one bit per lane.
template <class Predicate>
__device__ uint32_t ballot(Predicate x) {
  return __ballot_sync(0xffffffffu, x);
}

// Convert between float and the bits of 16-bit floating-point numbers. Rounds to nearest, ties to
// even.
__device__ inline uint16_t bf16_from_float(float x) {
  return __bfloat16_as_ushort(__float2bfloat16_rn(x));
}
__device__ inline uint16_t f16_from_float(float x) { return __half_as_ushort(__float2half_rn(x)); }
__device__ inline float float_from_f16(uint16_t bits) {
  return __half2float(__ushort_as_half(bits));
}

}  // namespace tessera
