// Work on several threads that loses no exception and makes do with fewer threads than asked for.
#pragma once

#include <cstddef>
#include <functional>

namespace tessera {

// Calls work(0) … work(n − 1), each on a thread of its own and one on the caller's; where the
// system has no thread left (ulimit -u, -v), on the caller's one after the other. Returns when all
// have returned, and throws the exception of the first that threw one.
void on_threads(size_t n, const std::function<void(size_t)>& work);

}  // namespace tessera
