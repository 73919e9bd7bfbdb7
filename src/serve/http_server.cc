// Threads that block in poll() with a deadline: one accepts, and one per connection reads, answers
// and writes. A generated text needs far longer than a context switch, so threads cost nothing that
// matters, and a blocked client delays only its own thread.
//
// Each wait has a limit, so a client that sends one byte per minute cannot hold a thread (the time
// counts from the first byte of a request to its last), and a stop is noticed within kPollMs. At a
// stop, a request that was received is answered, one that was received in part is rejected, and
// idle connections are closed, so no client can delay the end. The number of connections is
// bounded; one above it, and one for which no thread can be created, gets status 503.
#include "serve/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <system_error>

#include "base/error.h"
#include "base/log.h"

namespace tessera::serve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kPollMs = 100;     // how often a waiting thread looks whether the server stops
constexpr double kLinger_s = 2;  // time to read what a client sends after an error
constexpr double kClose_s = 1;   // most time for that, and for sending, after a stop

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

// Waits until the socket has one of the events, for at most kPollMs. Returns the events.
int wait_for(int socket, int events) {
  pollfd p = {socket, static_cast<short>(events), 0};
  return ::poll(&p, 1, kPollMs) > 0 ? p.revents : 0;
}

// A wait that gets shorter when the server stops.
class Patience {
 public:
  Patience(double seconds, const std::atomic<bool>& closing)
      : seconds_(seconds), closing_(closing) {}
  bool is_over() {
    if (closing_ && !closes_) {
      closes_ = true;
      begin_ = Clock::now();
      seconds_ = std::min(seconds_, kClose_s);
    }
    return seconds_since(begin_) > seconds_;
  }

 private:
  Clock::time_point begin_ = Clock::now();
  double seconds_;
  const std::atomic<bool>& closing_;
  bool closes_ = false;
};

// Sends all bytes while there is patience. Returns false if the client has gone or is too slow.
bool send_all(int socket, std::string_view bytes, Patience patience) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
      bytes.remove_prefix(static_cast<size_t>(n));
      continue;
    }
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) return false;
    if (patience.is_over()) return false;
    wait_for(socket, POLLOUT);
  }
  return true;
}

// Reads what the client still sends, for a short time. Closing a socket with unread bytes resets
// the connection, and the client would lose the response that explains why.
void linger(int socket, Patience patience) {
  ::shutdown(socket, SHUT_WR);
  char bytes[16 << 10];
  while (!patience.is_over()) {
    if (wait_for(socket, POLLIN) == 0) continue;
    const ssize_t n = ::recv(socket, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return;
  }
}

class Counted {
 public:
  explicit Counted(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int>& count_;
};

std::string error_body(std::string_view message) {
  std::string escaped;
  for (const char c : message) {
    if (c == '"' || c == '\\') escaped += '\\';
    escaped += c;
  }
  return fmt::format(
      R"({{"error":{{"message":"{}","type":"invalid_request_error","param":null,"code":null}}}})",
      escaped);
}

// Returns a whole response with an error.
std::string error_response(int status, std::string_view why, std::string_view extra_headers = "") {
  const std::string body = error_body(why);
  return response_head(status, "application/json", static_cast<int64_t>(body.size()), false,
                       extra_headers) +
         body;
}

// Closes a connection that gets no thread. Its request is not read and the response is sent without
// waiting: a flood must not block the accepting thread.
void turn_away(int socket, std::string_view why) {
  const std::string bytes = error_response(503, why, "Retry-After: 1\r\n");
  ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  ::close(socket);
}

class SocketResponder final : public Responder {
 public:
  // After `closing` was set, the client gets the message that the connection ends.
  SocketResponder(int socket, const HttpRequest& request, double write_s,
                  const std::atomic<bool>& closing)
      : socket_(socket),
        write_s_(write_s),
        closing_(closing),
        keep_alive_(request.keep_alive),
        may_chunk_(!request.is_http_1_0),
        head_only_(request.method == "HEAD") {}

  void respond(int status, std::string_view content_type, std::string_view body,
               std::string_view extra) override {
    if (closing_) keep_alive_ = false;
    const auto length = static_cast<int64_t>(body.size());
    std::string out = response_head(status, content_type, length, keep_alive_, extra);
    if (!head_only_) out += body;
    open_ = send_bytes(out) && keep_alive_;
    begun_ = true;
  }

  // Without chunks (HTTP/1.0), the end of the connection ends the body.
  bool begin(int status, std::string_view content_type) override {
    begun_ = true;
    if (!may_chunk_ || closing_) keep_alive_ = false;
    chunked_ = may_chunk_;
    const std::string head =
        may_chunk_ ? response_head(status, content_type, -1, keep_alive_)
                   : fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nConnection: close\r\n\r\n",
                                 status, reason_of(status), content_type);
    return open_ = send_bytes(head);
  }

  bool send(std::string_view data) override {
    if (!open_ || data.empty()) return open_;
    return open_ = chunked_ ? send_bytes(chunk_of(data)) : send_bytes(data);
  }

  bool client_gone() override {
    pollfd p = {socket_, POLLIN | POLLRDHUP, 0};
    if (::poll(&p, 1, 0) <= 0) return false;
    if ((p.revents & (POLLERR | POLLHUP)) != 0) return true;
    // A client that has closed its side reads nothing more: an answer has no receiver.
    return (p.revents & POLLRDHUP) != 0;
  }

  // Ends the response. Returns whether another request may follow on the connection.
  bool finish() {
    if (chunked_ && open_) open_ = send_bytes(kLastChunk);
    return open_ && keep_alive_;
  }
  bool begun() const { return begun_; }

 private:
  bool send_bytes(std::string_view bytes) const {
    return send_all(socket_, bytes, {write_s_, closing_});
  }

  int socket_;
  double write_s_;
  const std::atomic<bool>& closing_;
  bool keep_alive_, may_chunk_, head_only_;
  bool begun_ = false, chunked_ = false, open_ = true;
};

int listen_at(const ServerOptions& o, int& port) {
  sockaddr_storage address = {};
  socklen_t length = 0;
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&address);
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address);
  const auto net_port = htons(static_cast<uint16_t>(o.port));
  if (::inet_pton(AF_INET, o.host.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = net_port;
    length = sizeof(sockaddr_in);
  } else if (::inet_pton(AF_INET6, o.host.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = net_port;
    length = sizeof(sockaddr_in6);
  } else {
    throw Error("--host is '{}', expected a numeric address such as 127.0.0.1 or 0.0.0.0.", o.host);
  }
  const int fd = ::socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const int on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (fd < 0 || ::bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(fd, 128) != 0) {
    const std::string why = std::strerror(errno);
    if (fd >= 0) ::close(fd);
    throw Error("cannot listen on {} port {}: {}. Choose another with --port, or 0 for any.",
                o.host, o.port, why);
  }
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length);
  port = ntohs(address.ss_family == AF_INET ? v4->sin_port : v6->sin6_port);
  return fd;
}

}  // namespace

HttpServer::HttpServer(const ServerOptions& options)
    : options_(options), listener_(listen_at(options, port_)) {}

HttpServer::~HttpServer() {
  if (listener_ >= 0) ::close(listener_);
}

// Answers one complete request. Sets `open` to whether another may follow.
void HttpServer::answer(int socket, HttpReader& reader, const HttpHandler& handler, bool& open) {
  const Counted counted(answering_);
  const HttpRequest request = reader.take();
  SocketResponder responder(socket, request, options_.write_s, closing_);
  try {
    handler(request, responder);
  } catch (const std::exception& e) {
    print_to(stderr, fmt::format("error: {} {}: {}\n", request.method, request.path, e.what()));
    if (!responder.begun())
      responder.respond(500, "application/json", error_body("internal error"), "");
  }
  open = responder.finish();
}

// Answers with an error, and ends what is sent on the socket.
void HttpServer::refuse(int socket, int status, std::string_view why) const {
  send_all(socket, error_response(status, why), {options_.write_s, closing_});
  linger(socket, {kLinger_s, closing_});
}

void HttpServer::serve(int socket, const HttpHandler& handler) {
  HttpReader reader(options_.limits);
  Clock::time_point begin = Clock::now();
  std::string bytes(16 << 10, '\0');
  for (bool open = true; open;) {
    HttpReader::State state = reader.add("");
    while (state == HttpReader::State::kIncomplete) {
      const bool begun = reader.begun();
      if (closing_) {
        if (begun) refuse(socket, 503, "the server is shutting down.");
        return;
      }
      if (seconds_since(begin) > (begun ? options_.request_s : options_.idle_s)) {
        if (begun) refuse(socket, 408, "the request was not complete in time.");
        return;
      }
      if (wait_for(socket, POLLIN) == 0) continue;
      const ssize_t n = ::recv(socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) return;
      if (n < 0) continue;
      state = reader.add(std::string_view(bytes).substr(0, static_cast<size_t>(n)));
      if (!begun && reader.begun()) begin = Clock::now();
      if (reader.take_expectation() &&
          !send_all(socket, "HTTP/1.1 100 Continue\r\n\r\n", {options_.write_s, closing_}))
        return;
    }
    if (state == HttpReader::State::kBad) return refuse(socket, reader.status(), reader.problem());
    answer(socket, reader, handler, open);
    begin = Clock::now();
  }
}

void HttpServer::join_done() {
  for (auto it = workers_.begin(); it != workers_.end();)
    if (it->done)
      it->thread.join(), it = workers_.erase(it);
    else
      ++it;
}

// Starts the thread of a connection.
void HttpServer::start(int socket, const HttpHandler& handler) {
  if (connections_ >= options_.connections)
    return turn_away(socket, "the server has too many connections. Retry later.");
  Worker& w = workers_.emplace_back();
  ++connections_;
  try {
    w.thread = std::thread([this, socket, &handler, &w] {
      try {
        serve(socket, handler);
      } catch (const std::exception& e) {  // no memory for a request
        print_to(stderr, fmt::format("error: a connection is closed: {}\n", e.what()));
      }
      ::close(socket);
      --connections_;
      w.done = true;
    });
  } catch (const std::system_error& e) {
    --connections_;
    workers_.pop_back();
    print_to(stderr, fmt::format("warning: no thread for a connection: {}\n", e.what()));
    turn_away(socket, "the server cannot start another thread. Retry later.");
  }
}

void HttpServer::run(const HttpHandler& handler, const std::function<bool()>& stopping) {
  while (!stopping()) {
    join_done();
    if (wait_for(listener_, POLLIN) == 0) continue;
    const int socket = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) {
      // Without a free descriptor or memory the connection stays in the backlog: wait for some.
      if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
        std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
      continue;
    }
    const int on = 1;
    ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    start(socket, handler);
  }
  closing_ = true;
  for (Worker& w : workers_) w.thread.join();
  workers_.clear();
}

}  // namespace tessera::serve
