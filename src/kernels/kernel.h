// The interface of all kernels: device, launch parameters, and the table of kernels.
//
// A kernel is declared once, in the header with its name: a struct of its operands, XArgs, and
//   void launch(Cpu, const Launch&, const XArgs&);
//   void launch(Gpu, const Launch&, const XArgs&);
// A kernel that needs a workspace also has workspace_bytes(Cpu, …) or workspace_bytes(Gpu, …) or
// both. On the CPU, launch() returns after the computation. On a GPU, it enqueues the kernel in the
// stream and does not wait; operands are in device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>

#include "tensor/gpu.h"

namespace tessera::kernels {

// The devices. A build has one kind of GPU or none.
struct Cpu {};
struct Gpu {};

struct Launch {
  Stream stream = {};         // only on a GPU
  void* workspace = nullptr;  // workspace_bytes() bytes
  int threads = 1;            // CPU threads; the number given to workspace_bytes()

  // Returns an array in the workspace, `offset` bytes from its start.
  template <class T>
  T* room(int64_t offset = 0) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(workspace) + offset);
  }
};

// Returns the bytes of workspace that a launch needs. They depend on shapes and types only, so the
// data of views may be null. A kernel without an overload needs no workspace.
template <class Device, class Args>
int64_t workspace_bytes(Device, const Args&, int) {
  return 0;
}

// Returns the bytes of an array of n elements.
template <class T>
constexpr int64_t bytes_for(int64_t n) {
  return n * int64_t{sizeof(T)};
}

template <class Args>
struct Kernel {
  void (*run)(const Launch&, const Args&);
  int64_t (*workspace_bytes)(const Args&, int threads);
};

template <class... Args>
struct ArgsList {};

// The kernels of a device, by their arguments: table.of<CastArgs>().run(launch, {x, y}).
template <class List>
class TableOf;

template <class... Args>
class TableOf<ArgsList<Args...>> {
 public:
  constexpr explicit TableOf(Kernel<Args>... kernels) : kernels_(kernels...) {}
  template <class A>
  constexpr const Kernel<A>& of() const {
    return std::get<Kernel<A>>(kernels_);
  }

 private:
  std::tuple<Kernel<Args>...> kernels_;
};

// A kernel that is prepared once for a shape, for example with a library's plan or a measured
// algorithm. See `Gemm` (kernels/matmul.h), LmHead (kernels/linear_cross_entropy.h), Experts
// (kernels/experts.h) and GpuAttention (kernels/gpu_attention.h).
class PreparedKernel {
 public:
  PreparedKernel() = default;
  PreparedKernel(const PreparedKernel&) = delete;
  PreparedKernel& operator=(const PreparedKernel&) = delete;
  virtual ~PreparedKernel() = default;

  // Returns the size of the workspace of a run. The caller aligns it to 64 bytes on the CPU, and to
  // kBlasWorkspaceAlignment on a GPU.
  virtual int64_t workspace_bytes() const = 0;

 protected:
  PreparedKernel(PreparedKernel&&) = default;
  PreparedKernel& operator=(PreparedKernel&&) = default;
};

}  // namespace tessera::kernels
