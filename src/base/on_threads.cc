// Runs a fixed number of tasks on threads and collects their exceptions. Each task writes only its
// own entry of `failed`, so no lock is needed.
#include "base/on_threads.h"

#include <exception>
#include <system_error>
#include <thread>
#include <vector>

namespace tessera {

void on_threads(size_t n, const std::function<void(size_t)>& work) {
  std::vector<std::exception_ptr> failed(n);
  const auto guarded = [&](size_t i) {
    try {
      work(i);
    } catch (...) {
      failed[i] = std::current_exception();
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(n);
  try {
    while (threads.size() + 1 < n) threads.emplace_back(guarded, threads.size());
  } catch (const std::system_error&) {
    // The system has no more threads. The loop below runs the remaining tasks.
  }
  for (size_t i = threads.size(); i < n; ++i) guarded(i);
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& e : failed)
    if (e) std::rethrow_exception(e);
}

}  // namespace tessera
