// The runtime's calls on memory of the host.
#include <cstdlib>
#include <cstring>
#include <map>
#include <vector>

#include "cuda_runtime.h"

struct EmulatedStream {};
struct EmulatedEvent {};
struct EmulatedGraph {
  std::vector<std::function<void()>> work;
};

namespace {

EmulatedGraph* capturing = nullptr;
constexpr size_t kMemory = size_t{8} << 30;

std::map<std::byte*, size_t> pinned;  // as the driver, which refuses to pin a page twice

}  // namespace

void cuda_emulator::enqueue(std::function<void()> work) {
  if (capturing)
    capturing->work.push_back(std::move(work));
  else
    work();
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  std::strcpy(p->name, "the host, emulating");
  p->major = 9;
  p->minor = 0;
  p->multiProcessorCount = 1;
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = kMemory;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** p, size_t bytes) {
  *p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  return *p ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* p) {
  std::free(p);
  return cudaSuccess;
}
cudaError_t cudaHostRegister(void* p, size_t bytes, unsigned) {
  auto* const begin = static_cast<std::byte*>(p);
  for (const auto& [at, n] : pinned)
    if (begin < at + n && at < begin + bytes) return cudaErrorInvalidValue;
  pinned[begin] = bytes;
  return cudaSuccess;
}
cudaError_t cudaHostUnregister(void* p) {
  return pinned.erase(static_cast<std::byte*>(p)) == 1 ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaMemset(void* p, int byte, size_t bytes) {
  std::memset(p, byte, bytes);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
  *s = new EmulatedStream;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  delete s;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) {
  return capturing ? cudaErrorInvalidValue : cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) {
  if (capturing) return cudaErrorInvalidValue;
  capturing = new EmulatedGraph;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t* graph) {
  *graph = capturing;
  capturing = nullptr;
  return *graph ? cudaSuccess : cudaErrorInvalidValue;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  *e = new EmulatedEvent;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  delete e;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t*, size_t* count) {
  *count = graph->work.size();
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  *executable = new EmulatedGraph(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t) {
  for (const auto& work : executable->work) work();
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  cuda_emulator::enqueue([=] { std::memmove(to, from, bytes); });
  return cudaSuccess;
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t bytes, size_t rows, cudaMemcpyKind, cudaStream_t) {
  if (bytes > to_pitch || bytes > from_pitch) return cudaErrorInvalidValue;
  cuda_emulator::enqueue([=] {
    for (size_t r = 0; r < rows; ++r)
      std::memcpy(static_cast<std::byte*>(to) + r * to_pitch,
                  static_cast<const std::byte*>(from) + r * from_pitch, bytes);
  });
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* p, int byte, size_t bytes, cudaStream_t) {
  cuda_emulator::enqueue([=] { std::memset(p, byte, bytes); });
  return cudaSuccess;
}
