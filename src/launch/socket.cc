// Non-blocking TCP sockets for heartbeats, over IPv4 and IPv6. Reads and writes are retried after a
// signal (EINTR).
#include "launch/socket.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tessera::launch {
namespace {

constexpr int kBacklog = 4096;  // all ranks of a large run connect at once; the system may limit it

// An address of either family, and the number of bytes in use.
struct Address {
  sockaddr_storage bytes{};
  socklen_t size = 0;
};

// Parses a numeric address of either family. The size stays 0 if it is neither; names are not
// resolved, which could block.
Address read_address(const std::string& text, int port) {
  Address out;
  const auto number = htons(static_cast<uint16_t>(port));
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  if (inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    v4.sin_port = number;
    out.size = sizeof v4;
    std::memcpy(&out.bytes, &v4, sizeof v4);
  } else if (inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
    v6.sin6_family = AF_INET6;
    v6.sin6_port = number;
    out.size = sizeof v6;
    std::memcpy(&out.bytes, &v6, sizeof v6);
  }
  return out;
}

// Disables Nagle's algorithm: messages are small and must not wait for the acknowledgement of
// others.
void send_at_once(const Descriptor& socket) {
  const int on = 1;
  setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Descriptor new_socket(int family) {
  return Descriptor(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

Descriptor bind_v4(in_addr_t address) {
  Descriptor v4 = new_socket(AF_INET);
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(address);
  if (!v4.open() || ::bind(v4.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0)
    throw Error("cannot open a port for the ranks' heartbeats: {}", std::strerror(errno));
  return v4;
}

// Binds one socket for IPv4 and IPv6 (dual stack), or for IPv4 alone if the system lacks IPv6.
Descriptor bind_all() {
  if (Descriptor both = new_socket(AF_INET6); both.open()) {
    const int off = 0;
    setsockopt(both.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    if (::bind(both.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0) return both;
  }
  return bind_v4(INADDR_ANY);
}

}  // namespace

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = other.fd_;
    other.fd_ = -1;
  }
  return *this;
}

void Descriptor::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Descriptor listen_on(Interfaces interfaces, int& port) {
  Descriptor listener = interfaces == Interfaces::kLoopback ? bind_v4(INADDR_LOOPBACK) : bind_all();
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (::listen(listener.get(), kBacklog) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0)
    throw Error("cannot open a port for the ranks' heartbeats: {}", std::strerror(errno));
  sockaddr_in v4{};  // the port is at the same offset in both families
  std::memcpy(&v4, &bound, sizeof v4);
  port = ntohs(v4.sin_port);
  return listener;
}

Descriptor accept_one(const Descriptor& listener) {
  Descriptor out(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (out.open()) send_at_once(out);
  return out;
}

Descriptor connect_to(const std::string& address, int port, double seconds, std::string& why) {
  const Address to = read_address(address, port);
  if (to.size == 0) {
    why = "not an IPv4 or IPv6 address";
    return {};
  }
  Descriptor out = new_socket(to.bytes.ss_family);
  int result = 0;
  if (!out.open() ||
      (::connect(out.get(), reinterpret_cast<const sockaddr*>(&to.bytes), to.size) != 0 &&
       errno != EINPROGRESS)) {
    why = std::strerror(errno);
    return {};
  }
  // A non-blocking connect() is complete when the socket becomes writable; SO_ERROR has its result.
  pollfd wait{out.get(), POLLOUT, 0};
  if (::poll(&wait, 1, static_cast<int>(seconds * 1000)) <= 0) {
    why = "no answer";
    return {};
  }
  socklen_t size = sizeof result;
  ::getsockopt(out.get(), SOL_SOCKET, SO_ERROR, &result, &size);
  if (result != 0) {
    why = std::strerror(result);
    return {};
  }
  send_at_once(out);
  return out;
}

Received receive(const Descriptor& socket, std::string& bytes, size_t most) {
  std::array<char, 16384> piece;
  const size_t before = bytes.size();
  bool any = false;
  while (bytes.size() - before < most) {
    const ssize_t n = ::read(socket.get(), piece.data(), piece.size());
    if (n > 0) {
      bytes.append(piece.data(), n);
      any = true;
    } else if (n < 0 && errno == EINTR) {
      continue;
    } else if (any || (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))) {
      // Bytes before the end or an error are reported first; the next call sees the end again.
      return any ? Received::kBytes : Received::kNothing;
    } else {
      return Received::kClosed;
    }
  }
  return Received::kBytes;
}

bool send_some(const Descriptor& socket, std::string& bytes) {
  while (!bytes.empty()) {
    // MSG_NOSIGNAL: a closed connection returns an error instead of raising SIGPIPE.
    const ssize_t n = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    bytes.erase(0, n);
  }
  return true;
}

}  // namespace tessera::launch
