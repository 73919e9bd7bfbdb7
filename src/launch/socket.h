// The operations on TCP sockets that heartbeats need. Descriptors are closed on exec and do not
// block.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::launch {

// Owns a file descriptor, or none (-1).
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  Descriptor& operator=(Descriptor&& other) noexcept;
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

enum class Interfaces : uint8_t { kAll, kLoopback };

// Listens on a free port and writes its number to `port`. With kLoopback it listens only on
// 127.0.0.1, which no other host can reach. Throws Error if that fails.
Descriptor listen_on(Interfaces interfaces, int& port);
Descriptor accept_one(const Descriptor& listener);  // not open if no connection is waiting

// Connects within `seconds` to a numeric IPv4 or IPv6 address. If that fails, returns a descriptor
// that is not open and writes the reason to `why`.
Descriptor connect_to(const std::string& address, int port, double seconds, std::string& why);

enum class Received : uint8_t { kBytes, kNothing, kClosed };
// Appends what has arrived, and returns after `most` bytes or more.
Received receive(const Descriptor& socket, std::string& bytes, size_t most = SIZE_MAX);

// Sends what fits without blocking and removes it from `bytes`. Returns false if the connection is
// lost.
bool send_some(const Descriptor& socket, std::string& bytes);

}  // namespace tessera::launch
