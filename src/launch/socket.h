// The few things we do with TCP sockets. Descriptors are closed on exec and never block.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tessera::launch {

// Owns one descriptor; -1: none.
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

// Listens on a free port, which it writes to `port`. kLoopback: on 127.0.0.1 alone, which no other
// host can reach. Throws Error.
Descriptor listen_on(Interfaces interfaces, int& port);
Descriptor accept_one(const Descriptor& listener);  // not open if no connection is waiting

// Connects within `seconds`; `address` is a number (IPv4 or IPv6). None where that fails, and `why`
// says how.
Descriptor connect_to(const std::string& address, int port, double seconds, std::string& why);

enum class Received : uint8_t { kBytes, kNothing, kClosed };
// Appends what has arrived, and returns after `most` bytes or more.
Received receive(const Descriptor& socket, std::string& bytes, size_t most = SIZE_MAX);

// Sends what fits without waiting and removes it from `bytes`. False: the connection is gone.
bool send_some(const Descriptor& socket, std::string& bytes);

}  // namespace tessera::launch
