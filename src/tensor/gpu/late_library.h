// A shared library that is loaded when it is first needed. Loading cuBLASLt alone takes 0.2 s and
// 200 MB, which runs on the CPU do not need.
#pragma once

#include <dlfcn.h>

#include <string>

#include "base/error.h"

namespace tessera {

class LateLibrary {
 public:
  // Loads the library from the system's search path, or from the toolkit that the program was built
  // with. Throws Error if it is in neither; `what` is its name for the message.
  LateLibrary(const std::string& file, const std::string& toolkit, const std::string& what) {
    handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) handle_ = dlopen((toolkit + "/" + file).c_str(), RTLD_NOW);
    if (handle_ == nullptr)
      throw Error(
          "{} is not installed: {} is neither in {} nor in the library search path. Install it, or "
          "set LD_LIBRARY_PATH.",
          what, file, toolkit);
  }
  // Libraries stay loaded, because they have their own threads and handlers.
  LateLibrary(const LateLibrary&) = delete;
  LateLibrary& operator=(const LateLibrary&) = delete;

  // Sets a pointer to the function of that name.
  template <class F>
  void find(const char* name, F*& function) const {
    function = reinterpret_cast<F*>(dlsym(handle_, name));
    if (function == nullptr) throw Error("the CUDA libraries are too old: {} is missing.", name);
  }

  // Does the same, but sets nullptr if the library is too old to have the function.
  template <class F>
  void find_if_there(const char* name, F*& function) const {
    function = reinterpret_cast<F*>(dlsym(handle_, name));
  }

  void* native() const { return handle_; }  // the handle that dlopen returned

 private:
  void* handle_ = nullptr;
};

}  // namespace tessera
