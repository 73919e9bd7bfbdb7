// What all kernels share: the device that runs one, how it is launched, and its entry in a table.
//
// A kernel is declared once, in the header of its name: a struct of its operands, XArgs, and
//   void launch(Cpu, const Launch&, const XArgs&);
//   void launch(Gpu, const Launch&, const XArgs&);
// A kernel that needs a workspace has workspace_bytes(Cpu, …) and workspace_bytes(Gpu, …) as well,
// or one of them. On the CPU a launch computes at once; on a GPU it is enqueued in the stream,
// memory is the device's, and no call waits.
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
  Stream stream = {};         // of a GPU; the CPU has none
  void* workspace = nullptr;  // workspace_bytes() bytes
  int threads = 1;            // CPU threads; workspace_bytes() was asked for this number

  // An array in the workspace, that many bytes from its start.
  template <class T>
  T* room(int64_t offset = 0) const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(workspace) + offset);
  }
};

// The bytes of workspace that a launch needs: a function of shapes and types, so the data of views
// may be null. A kernel that has no overload of its own needs none.
template <class Device, class Args>
int64_t workspace_bytes(Device, const Args&, int) {
  return 0;
}

// The bytes of an array of n elements.
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

// A kernel that is made ready once for a shape: a library's plan, an algorithm that was measured.
// What it computes is in the header of its kind: Product (kernels/matmul.h), Head
// (kernels/linear_cross_entropy.h), GpuAttention (kernels/gpu_attention.h).
class PreparedKernel {
 public:
  PreparedKernel() = default;
  PreparedKernel(const PreparedKernel&) = delete;
  PreparedKernel& operator=(const PreparedKernel&) = delete;
  virtual ~PreparedKernel() = default;

  // The workspace of a run. On the CPU it is aligned to 64 bytes, on a GPU to
  // kBlasWorkspaceAlignment.
  virtual int64_t workspace_bytes() const = 0;

 protected:
  PreparedKernel(PreparedKernel&&) = default;
  PreparedKernel& operator=(PreparedKernel&&) = default;
};

}  // namespace tessera::kernels
