// The runtime's calls on memory: the host's, in which the device's is known by its addresses.
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "streams.h"

namespace {

constexpr size_t kMemory = size_t{8} << 30;
constexpr size_t kPlainShared = 48 << 10, kMostShared = 227 << 10;  // of a Hopper card

const pid_t kProcess = getpid();  // that the device is of

using Ranges = std::map<const std::byte*, size_t>;

Ranges allocated;                             // of the device
Ranges pinned;                                // the driver refuses to pin a page twice
std::map<const void*, size_t> dynamic_bytes;  // of shared memory that kernels were allowed

// Of a range, how much lies in others: none, all or something between.
size_t overlap(const Ranges& all, const std::byte* begin, size_t bytes) {
  size_t sum = 0;
  for (const auto& [at, n] : all) {
    const std::byte *from = std::max(at, begin), *to = std::min(at + n, begin + bytes);
    if (from < to) sum += static_cast<size_t>(to - from);
  }
  return sum;
}

}  // namespace

namespace cuda_emulator {

DeviceConduct device_conduct;

bool is_forked() { return getpid() != kProcess; }

Place place_of(const void* p, size_t bytes) {
  const auto* const begin = static_cast<const std::byte*>(p);
  const size_t device = overlap(allocated, begin, bytes), host = overlap(pinned, begin, bytes);
  if (device == 0 && host == 0) return Place::kPageable;
  if (device == bytes) return Place::kDevice;
  return device == 0 && host == bytes ? Place::kPinned : Place::kMixed;
}

gpuError_t check_launch(const gpuLaunchConfig_t& c, const void* kernel) {
  const dim3 &g = c.gridDim, &b = c.blockDim;
  constexpr unsigned kMostX = 0x7fffffffu, kMostY = 65535;
  if (g.x == 0 || g.y == 0 || g.z == 0 || g.x > kMostX || g.y > kMostY || g.z > kMostY ||
      b.x == 0 || b.x > 1024 || b.y != 1 || b.z != 1)
    return gpuErrorInvalidConfiguration;
  const auto allowed = dynamic_bytes.find(kernel);
  return c.dynamicSmemBytes <= (allowed == dynamic_bytes.end() ? kPlainShared : allowed->second)
             ? gpuSuccess
             : gpuErrorInvalidValue;
}

}  // namespace cuda_emulator

using cuda_emulator::device_conduct;
using cuda_emulator::Place;
using cuda_emulator::place_of;

gpuError_t gpuGetLastError() { return std::exchange(device_conduct.last_error, gpuSuccess); }
const char* gpuGetErrorString(gpuError_t code) {
  switch (code) {
    case gpuErrorInvalidConfiguration:
      return "more blocks or threads than there can be";
    case gpuErrorStreamCaptureUnsupported:
      return "not during a capture";
    case gpuErrorStreamCaptureUnjoined:
      return "a stream of the capture did not come back";
    case gpuErrorStreamCaptureIsolation:
      return "an event of another capture, or of none";
    case gpuErrorStreamCaptureImplicit:
      return "work beside a capture";
    case gpuErrorCapturedEvent:
      return "an event of a capture";
    default:
      return "emulated";
  }
}

gpuError_t gpuFuncSetAttribute(const void* kernel, gpuFuncAttribute, int bytes) {
  if (bytes < 0 || static_cast<size_t>(bytes) > kMostShared) return gpuErrorInvalidValue;
  dynamic_bytes[kernel] = static_cast<size_t>(bytes);
  return gpuSuccess;
}
gpuError_t gpuGetDeviceCount(int* count) {
  *count = 1;
  return gpuSuccess;
}
gpuError_t gpuSetDevice(int) { return gpuSuccess; }
gpuError_t gpuGetDeviceProperties(gpuDeviceProp* p, int) {
  std::strcpy(p->name, "the host, emulating");
  p->major = 9;
  p->minor = 0;
  p->multiProcessorCount = 1;
  std::memset(p->uuid.bytes, device_conduct.number, sizeof(p->uuid.bytes));
  return gpuSuccess;
}
gpuError_t gpuMemGetInfo(size_t* free, size_t* total) {
  *total = kMemory;
  *free = kMemory;
  for (const auto& [at, bytes] : allocated) *free -= bytes;
  return gpuSuccess;
}
gpuError_t gpuMalloc(void** p, size_t bytes) {
  if (cuda_emulator::is_forked()) return gpuErrorInitializationError;
  if (cuda_emulator::is_capturing()) return gpuErrorStreamCaptureUnsupported;
  *p = std::aligned_alloc(256, (bytes + 255) / 256 * 256);
  if (*p == nullptr) return gpuErrorMemoryAllocation;
  allocated[static_cast<std::byte*>(*p)] = bytes;
  return gpuSuccess;
}
// Waits for the device, as the driver's does.
gpuError_t gpuFree(void* p) {
  if (cuda_emulator::is_capturing()) return gpuErrorStreamCaptureUnsupported;
  cuda_emulator::finish_all();
  allocated.erase(static_cast<std::byte*>(p));
  std::free(p);
  return gpuSuccess;
}
gpuError_t gpuHostRegister(void* p, size_t bytes, unsigned) {
  if (overlap(pinned, static_cast<std::byte*>(p), bytes) > 0 ||
      pinned.size() >= device_conduct.most_pinned)
    return device_conduct.last_error = gpuErrorMemoryAllocation;
  pinned[static_cast<std::byte*>(p)] = bytes;
  return gpuSuccess;
}
gpuError_t gpuHostUnregister(void* p) {
  cuda_emulator::finish_all();
  return pinned.erase(static_cast<std::byte*>(p)) == 1 ? gpuSuccess : gpuErrorInvalidValue;
}
// In the legacy stream, and over when that is: the host does not wait.
gpuError_t gpuMemset(void* p, int byte, size_t bytes) {
  if (cuda_emulator::is_capturing()) return gpuErrorStreamCaptureUnsupported;
  return gpuMemsetAsync(p, byte, bytes, nullptr);
}
gpuError_t gpuMemsetAsync(void* p, int byte, size_t bytes, gpuStream_t s) {
  if (place_of(p, bytes) != Place::kDevice) return gpuErrorInvalidValue;
  return cuda_emulator::enqueue(s, [=] { std::memset(p, byte, bytes); });
}

// What is pinned or on the device is read and written when the stream comes to it. Pageable memory
// is read now, and is written when the call returns.
gpuError_t gpuMemcpyAsync(void* to, const void* from, size_t bytes, gpuMemcpyKind, gpuStream_t s) {
  const Place target = place_of(to, bytes), source = place_of(from, bytes);
  if (target == Place::kMixed || source == Place::kMixed) return gpuErrorInvalidValue;
  const bool captured = cuda_emulator::is_captured(s);
  if (source == Place::kPageable && !captured) {
    const auto* const bytes_of = static_cast<const std::byte*>(from);
    const auto copy = std::make_shared<std::vector<std::byte>>(bytes_of, bytes_of + bytes);
    return cuda_emulator::enqueue(s, [=] { std::memcpy(to, copy->data(), bytes); });
  }
  const gpuError_t code = cuda_emulator::enqueue(s, [=] { std::memmove(to, from, bytes); });
  if (code != gpuSuccess || target != Place::kPageable || captured) return code;
  return cuda_emulator::finish(s);
}
gpuError_t gpuMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                            size_t bytes, size_t rows, gpuMemcpyKind, gpuStream_t s) {
  if (bytes > to_pitch || bytes > from_pitch) return gpuErrorInvalidValue;
  const size_t last = rows - 1;
  if (place_of(to, last * to_pitch + bytes) != Place::kDevice ||
      place_of(from, last * from_pitch + bytes) != Place::kDevice)
    return gpuErrorInvalidValue;  // of the host there is no need
  return cuda_emulator::enqueue(s, [=] {
    for (size_t r = 0; r < rows; ++r)
      std::memcpy(static_cast<std::byte*>(to) + r * to_pitch,
                  static_cast<const std::byte*>(from) + r * from_pitch, bytes);
  });
}
