// The monitor's side of all heartbeats: listens for ranks and turns their messages into events. It
// is used by one thread, without locks.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "launch/message.h"
#include "launch/socket.h"

namespace tessera::launch {

struct RankEvent {
  int rank = 0;
  bool closed = false;  // the connection ended; `message` is empty
  HeartbeatMessage message;
};

class Receiver {
 public:
  // Listens on a free port for `ranks` ranks. A connection that does not begin with the token is
  // closed. Before the token is checked, a connection may use 16 KiB of memory, and at most
  // ranks + 64 such connections are open: one more closes the oldest of them.
  Receiver(std::string token, int ranks, Interfaces interfaces = Interfaces::kAll);
  int port() const { return port_; }
  int descriptor() const { return epoll_.get(); }  // readable when read() has something to return

  // Returns the events since the last call, in order for each rank. Never blocks.
  std::vector<RankEvent> read();
  void tell(int rank, MessageKind kind);
  void tell_all(MessageKind kind);

 private:
  struct Connection {
    Descriptor socket;
    int64_t arrival = 0;
    int rank = -1;  // -1: before its hello
    LineBuffer lines;
    std::string to_send;
  };
  void accept_all();
  void limit_strangers();
  // Returns false if the connection ended or must be closed.
  bool read_one(Connection& connection, std::vector<RankEvent>& events);
  void post(Connection& connection, MessageKind kind);

  std::string token_;
  size_t most_strangers_;  // maximum number of connections without a token
  int64_t arrivals_ = 0;
  int port_ = 0;
  Descriptor listener_, epoll_;
  std::map<int, Connection> connections_;  // by descriptor
};

}  // namespace tessera::launch
