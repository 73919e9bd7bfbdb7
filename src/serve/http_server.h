// Serves HTTP/1.1 on a TCP port, with one thread per connection and limits on their number, on the
// size of requests and on the time that a client has to send one.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "serve/http_message.h"

namespace tessera::serve {

struct ServerOptions {
  std::string host = "127.0.0.1";  // a numeric address
  int port = 8000;                 // 0: any free port
  int connections = 128;           // more get status 503
  double request_s = 30;           // time to receive a whole request
  double idle_s = 60;              // time that a connection may wait for its next request
  double write_s = 30;             // time that a client has to accept bytes
  HttpLimits limits;
};

// Answers one request: calls respond() once, or begin() and then send() any number of times.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void respond(int status, std::string_view content_type, std::string_view body,
                       std::string_view extra_headers = "") = 0;
  // Begins a response of unknown length, and sends a part of it. Return false if the client has
  // gone; then the answer may be abandoned.
  virtual bool begin(int status, std::string_view content_type) = 0;
  virtual bool send(std::string_view data) = 0;
  // Returns whether the client has closed the connection.
  virtual bool client_gone() = 0;
};

using HttpHandler = std::function<void(const HttpRequest&, Responder&)>;

class HttpServer {
 public:
  // Listens at once, so clients may connect before run(). Throws Error if the address is not
  // numeric or the port is in use.
  explicit HttpServer(const ServerOptions& options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }
  // Serves until `stopping` returns true, which is asked several times per second. Then no new
  // connection is accepted, requests that were received are answered, and the rest are closed; a
  // client that does not accept its answer has one more second. Exceptions of the handler become
  // status 500.
  void run(const HttpHandler& handler, const std::function<bool()>& stopping);
  // Returns the number of requests that are being answered.
  int answering() const { return answering_; }

 private:
  struct Worker {
    std::thread thread;
    std::atomic<bool> done = false;
  };

  void start(int socket, const HttpHandler& handler);
  void join_done();
  void serve(int socket, const HttpHandler& handler);
  void answer(int socket, HttpReader& reader, const HttpHandler& handler, bool& open);
  void refuse(int socket, int status, std::string_view why) const;

  ServerOptions options_;
  int port_ = 0, listener_ = -1;  // in this order: opening the listener sets the port
  std::list<Worker> workers_;
  std::atomic<int> connections_ = 0, answering_ = 0;
  std::atomic<bool> closing_ = false;
};

}  // namespace tessera::serve
