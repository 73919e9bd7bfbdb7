// A small HTTP client for tests: one connection, bytes out and bytes in.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "base/error.h"

namespace tessera::serve {

struct Answer {
  int status = 0;
  std::string head, body;
  bool complete = false;
};

class Client {
 public:
  explicit Client(int port) : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
    const timeval most = {60, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof most);
  }
  ~Client() { close(); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool connected() const { return connected_; }
  int descriptor() const { return fd_; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  // Receives some bytes; false: the connection has ended.
  bool receive() {
    char bytes[4096];
    const ssize_t n = ::recv(fd_, bytes, sizeof bytes, 0);
    if (n > 0) in_.append(bytes, static_cast<size_t>(n));
    return n > 0;
  }
  const std::string& received() const { return in_; }

  // Reads one response, with a length or in chunks.
  Answer answer() {
    Answer a;
    size_t end = 0;
    while ((end = in_.find("\r\n\r\n")) == in_.npos)
      if (!receive()) return a;
    a.head = in_.substr(0, end);
    in_.erase(0, end + 4);
    a.status = std::atoi(a.head.c_str() + 9);
    if (const size_t at = a.head.find("Content-Length: "); at != a.head.npos) {
      const auto length = static_cast<size_t>(std::atoll(a.head.c_str() + at + 16));
      while (in_.size() < length)
        if (!receive()) return a;
      a.body = in_.substr(0, length);
      in_.erase(0, length);
      a.complete = true;
      return a;
    }
    while (true) {
      while ((end = in_.find("\r\n")) == in_.npos)
        if (!receive()) return a;
      const auto length = static_cast<size_t>(std::strtoull(in_.c_str(), nullptr, 16));
      while (in_.size() < end + 2 + length + 2)
        if (!receive()) return a;
      a.body += in_.substr(end + 2, length);
      in_.erase(0, end + 2 + length + 2);
      if (length == 0) break;
    }
    a.complete = true;
    return a;
  }
  Answer ask(const std::string& request) { return send(request) ? answer() : Answer(); }
  Answer get(const std::string& path) {
    return ask(fmt::format("GET {} HTTP/1.1\r\nHost: x\r\n\r\n", path));
  }
  Answer post(const std::string& path, const std::string& body) { return ask(posted(path, body)); }
  static std::string posted(const std::string& path, const std::string& body) {
    return fmt::format("POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{}", path,
                       body.size(), body);
  }

 private:
  int fd_;
  bool connected_ = false;
  std::string in_;
};

}  // namespace tessera::serve
