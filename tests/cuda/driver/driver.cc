// In place of the driver (libcuda.so.1) where there is none, for what cuDNN calls when it makes the
// code of a plan for a card that is described to it. The code is taken and never run: what would
// run something is refused.
#include <cstddef>
#include <cstdint>

extern "C" {

using Result = int;
constexpr Result kSuccess = 0, kNoDevice = 100, kRefused = 801;  // CUDA_ERROR_NOT_SUPPORTED

Result cuInit(unsigned) { return kNoDevice; }  // the compiler (nvrtc) would ask a driver for more
Result cuDriverGetVersion(int* version) {
  *version = 13000;
  return kSuccess;
}
Result cuLibraryLoadData(void** library, const void* code, void*, void*, unsigned, void*, void*,
                         unsigned) {
  if (code == nullptr) return kRefused;
  *library = const_cast<void*>(code);
  return kSuccess;
}
Result cuLibraryUnload(void*) { return kSuccess; }
Result cuLibraryGetKernel(void** kernel, void* library, const char*) {
  *kernel = library;
  return kSuccess;
}
Result cuKernelSetAttribute(int, int, void*, int) { return kSuccess; }

#define TESSERA_REFUSED(name) \
  Result name() { return kRefused; }
TESSERA_REFUSED(cuCtxGetCurrent)
TESSERA_REFUSED(cuCtxGetLimit)
TESSERA_REFUSED(cuCtxPopCurrent)
TESSERA_REFUSED(cuCtxPushCurrent)
TESSERA_REFUSED(cuDeviceGet)
TESSERA_REFUSED(cuDeviceGetCount)
TESSERA_REFUSED(cuGetErrorName)
TESSERA_REFUSED(cuGetErrorString)
TESSERA_REFUSED(cuKernelGetAttribute)
TESSERA_REFUSED(cuLaunchCooperativeKernel)
TESSERA_REFUSED(cuLaunchKernel)
TESSERA_REFUSED(cuLaunchKernelEx)
TESSERA_REFUSED(cuLibraryLoadFromFile)
TESSERA_REFUSED(cuLinkAddData)
TESSERA_REFUSED(cuLinkComplete)
TESSERA_REFUSED(cuLinkCreate)
TESSERA_REFUSED(cuLinkDestroy)
TESSERA_REFUSED(cuOccupancyMaxPotentialClusterSize)
TESSERA_REFUSED(cuStreamGetCtx)

}  // extern "C"
