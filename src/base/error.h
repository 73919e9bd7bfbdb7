// The two ways to fail.
//   CHECK(condition, "format {}", …)   our bug: prints where and why, aborts, in every build.
//   throw Error("format {}", …)        the world's fault: file, config, device, peer. Caught once,
//                                      in main. Says what was found, what was wanted, what to do.
#pragma once

#include <fmt/format.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace tessera {

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message) : std::runtime_error(message) {}
  template <class... A>
  explicit Error(fmt::format_string<A...> format, A&&... a) requires(sizeof...(A) > 0)
      : std::runtime_error(fmt::format(format, std::forward<A>(a)...)) {}
};

// A result that training computed is not a number to continue with: it is NaN or infinite, or the
// loss diverges. The same command would fail again, so main() gives it an exit code of its own,
// kNumericExitCode, and `tessera launch --restart` does not restart after it.
class NumericError : public Error {
 public:
  using Error::Error;
};
constexpr int kNumericExitCode = 3;

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

// A command line that cannot be understood: exit code 2.
class UsageError : public Error {
  using Error::Error;
};

// Returns `message` with a full stop at its end, so that another sentence can follow.
std::string sentence(std::string message);

}  // namespace tessera

#define CHECK(condition, ...)                                                              \
  do {                                                                                     \
    if (!(condition)) [[unlikely]]                                                         \
      ::tessera::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
