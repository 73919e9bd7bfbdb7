// A shared library that is looked for when it is first needed. cuBLASLt alone takes 0.2 s and
// 200 MB to load, which no run on the CPU should pay.
#pragma once

#include <dlfcn.h>

#include <string>

#include "base/error.h"

namespace tessera {

class LateLibrary {
 public:
  // Looks where the system does, then in the toolkit that the program was built with.
  LateLibrary(const std::string& file, const std::string& toolkit, const std::string& what) {
    handle_ = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) handle_ = dlopen((toolkit + "/" + file).c_str(), RTLD_NOW);
    if (handle_ == nullptr)
      throw Error(
          "{} is not installed: {} is neither in {} nor where the system looks "
          "(LD_LIBRARY_PATH).",
          what, file, toolkit);
  }
  // Libraries stay loaded: they have threads and handlers of their own.
  LateLibrary(const LateLibrary&) = delete;
  LateLibrary& operator=(const LateLibrary&) = delete;

  // Sets a pointer to the function of that name.
  template <class F>
  void find(const char* name, F*& function) const {
    function = reinterpret_cast<F*>(dlsym(handle_, name));
    if (function == nullptr) throw Error("the CUDA libraries are too old: there is no {}.", name);
  }

  // The same, but leaves it nullptr where the library is too old to have it.
  template <class F>
  void find_if_there(const char* name, F*& function) const {
    function = reinterpret_cast<F*>(dlsym(handle_, name));
  }

  void* native() const { return handle_; }  // what dlopen gave

 private:
  void* handle_ = nullptr;
};

}  // namespace tessera
