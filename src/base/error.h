// The two ways to fail.
//   CHECK(condition, "format {}", …)   A bug in Tessera: prints where and why and aborts, in all
//                                      builds.
//   throw Error("format {}", …)        An external error: file, configuration, device, other rank.
//                                      Caught once, in main. The message states what was found,
//                                      what was expected and what to do.
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

// A result of training is NaN or infinite, or the loss diverges, so training cannot continue. The
// same command would fail again, so main() returns a separate exit code, kNumericExitCode, and
// `tessera launch --restart` does not restart after it.
class NumericError : public Error {
 public:
  using Error::Error;
};
constexpr int kNumericExitCode = 3;

[[noreturn]] void check_failed(const char* file, int line, const char* condition,
                               const std::string& message);

// An invalid command line: exit code 2.
class UsageError : public Error {
  using Error::Error;
};

// Returns `message` with a period at its end, so that another sentence can follow.
std::string sentence(std::string message);

}  // namespace tessera

#define CHECK(condition, ...)                                                              \
  do {                                                                                     \
    if (!(condition)) [[unlikely]]                                                         \
      ::tessera::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (false)
