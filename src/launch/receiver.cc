// The monitor's side of all heartbeat connections: one thread, non-blocking sockets and epoll, so
// that thousands of ranks need no thread each.
//
// The port is reachable from the network, so a connection is not trusted before it has sent the
// token: its memory is limited to one short line, and the number of such connections is limited.
#include "launch/receiver.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tessera::launch {
namespace {

constexpr size_t kMostWaiting = 1024;  // unsent bytes; a further message would add nothing new
constexpr size_t kLongestHello = size_t{16} << 10;
constexpr size_t kMostAtOnce = size_t{1} << 20;  // bytes read from a rank before others get a turn
constexpr size_t kSpareStrangers = 64;

void monitor(const Descriptor& epoll, const Descriptor& socket) {
  // Level-triggered: data that remains after a bounded read is reported again by the next call.
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = socket.get();
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, socket.get(), &event) != 0)
    throw Error("cannot wait for a heartbeat socket: {}", std::strerror(errno));
}

}  // namespace

Receiver::Receiver(std::string token, int ranks, Interfaces interfaces)
    : token_(std::move(token)),
      most_strangers_(ranks + kSpareStrangers),
      listener_(listen_on(interfaces, port_)) {
  epoll_ = Descriptor(::epoll_create1(EPOLL_CLOEXEC));
  monitor(epoll_, listener_);
}

void Receiver::accept_all() {
  for (Descriptor d = accept_one(listener_); d.open(); d = accept_one(listener_)) {
    monitor(epoll_, d);
    Connection& c = connections_[d.get()];
    c.socket = std::move(d);
    c.arrival = arrivals_++;
    c.lines = LineBuffer(kLongestHello);
    limit_strangers();
  }
}

// Closes the oldest connection without a token if there are too many such connections. A rank sends
// its token right after it connects, so the oldest one is least likely to be a rank.
void Receiver::limit_strangers() {
  size_t strangers = 0;
  auto oldest = connections_.end();
  for (auto at = connections_.begin(); at != connections_.end(); ++at) {
    if (at->second.rank >= 0) continue;
    ++strangers;
    if (oldest == connections_.end() || at->second.arrival < oldest->second.arrival) oldest = at;
  }
  if (strangers > most_strangers_) connections_.erase(oldest);
}

std::vector<RankEvent> Receiver::read() {
  std::vector<RankEvent> events;
  std::array<epoll_event, 64> ready;
  int n = 0;
  // A full array means that more descriptors may be ready.
  do {
    n = ::epoll_wait(epoll_.get(), ready.data(), static_cast<int>(ready.size()), 0);
    for (int i = 0; i < n; ++i) {
      const int fd = ready[i].data.fd;
      if (fd == listener_.get()) {
        accept_all();
        continue;
      }
      const auto at = connections_.find(fd);
      // It may have been closed by limit_strangers() in this call.
      if (at == connections_.end() || read_one(at->second, events)) continue;
      if (at->second.rank >= 0) events.push_back({at->second.rank, true, {}});
      connections_.erase(at);
    }
  } while (n == static_cast<int>(ready.size()));
  return events;
}

bool Receiver::read_one(Connection& connection, std::vector<RankEvent>& events) {
  std::string bytes, line;
  const Received received =
      receive(connection.socket, bytes, connection.rank < 0 ? kLongestHello : kMostAtOnce);
  connection.lines.append(bytes);
  try {
    while (connection.lines.take(line)) {
      HeartbeatMessage message = decode(line);
      const bool hello = message.kind == MessageKind::kHello;
      // The first message must be a hello, and no later one may be.
      if (hello != (connection.rank < 0)) return false;
      if (hello && message.token != token_) return false;
      if (hello) {
        connection.rank = static_cast<int>(message.rank);
        // After the token, long lines such as a configuration are allowed.
        const std::string rest = connection.lines.rest();
        connection.lines = LineBuffer();
        connection.lines.append(rest);
      }
      events.push_back({connection.rank, false, std::move(message)});
    }
  } catch (const Error&) {
    return false;  // not a rank, or corrupt: treated like a connection that ended
  }
  return received != Received::kClosed;
}

void Receiver::post(Connection& connection, MessageKind kind) {
  // A rank that does not read (it is suspended) must not make this process store messages without
  // bound.
  if (connection.rank < 0 || connection.to_send.size() > kMostWaiting) return;
  HeartbeatMessage message;
  message.kind = kind;
  connection.to_send += encode(message);
  send_some(connection.socket, connection.to_send);  // a lost connection is detected by read()
}

void Receiver::tell(int rank, MessageKind kind) {
  for (auto& [fd, connection] : connections_)
    if (connection.rank == rank) post(connection, kind);
}

void Receiver::tell_all(MessageKind kind) {
  for (auto& [fd, connection] : connections_) post(connection, kind);
}

}  // namespace tessera::launch
