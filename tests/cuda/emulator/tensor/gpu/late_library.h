// Replaces a library that is opened when needed by the functions of the stand-in for NCCL.
#pragma once

#include <string>

#include "base/error.h"

namespace cuda_emulator {
void* nccl_function(const std::string& name);  // nullptr: this version does not have it
}

namespace tessera {

class LateLibrary {
 public:
  LateLibrary(const std::string&, const std::string&, const std::string&) {}
  template <class F>
  void find(const char* name, F*& function) const {
    find_if_there(name, function);
    CHECK(function != nullptr, "the stand-in for NCCL has no {}", name);
  }
  template <class F>
  void find_if_there(const char* name, F*& function) const {
    function = reinterpret_cast<F*>(cuda_emulator::nccl_function(name));
  }
};

}  // namespace tessera
