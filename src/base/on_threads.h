// Runs work on several threads and rethrows their exceptions. Also works if the system provides
// fewer threads than requested.
#pragma once

#include <cstddef>
#include <functional>

namespace tessera {

// Calls work(0) … work(n − 1) on n threads, including the caller's. If the system has no more
// threads (ulimit -u, -v), the remaining calls run on the caller's thread, one after another.
// Returns when all have returned, and throws the exception of the first that threw one.
void on_threads(size_t n, const std::function<void(size_t)>& work);

}  // namespace tessera
