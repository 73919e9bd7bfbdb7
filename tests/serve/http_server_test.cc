#include "serve/http_server.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "base/error.h"
#include "tests/serve/client.h"

namespace tessera::serve {
namespace {

// A server in a thread of the test.
class Running {
 public:
  explicit Running(ServerOptions options, HttpHandler handler)
      : server_(with_any_port(options)), thread_([this, handler = std::move(handler)] {
          server_.run(handler, [this] { return stop_.load(); });
        }) {}
  ~Running() { stop(); }
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  int port() const { return server_.port(); }

 private:
  static ServerOptions with_any_port(ServerOptions o) {
    o.port = 0;
    return o;
  }
  HttpServer server_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

void echo(const HttpRequest& r, Responder& s) { s.respond(200, "text/plain", r.path + r.body); }

TEST(HttpServer, AnswersSeveralRequestsOnOneConnection) {
  Running server({}, echo);
  Client c(server.port());
  for (int i = 0; i < 3; ++i) {
    const Answer a = c.post("/p", std::to_string(i));
    EXPECT_EQ(a.status, 200);
    EXPECT_EQ(a.body, "/p" + std::to_string(i));
  }
  // Two at once: both are answered, in order.
  ASSERT_TRUE(c.send(Client::posted("/q", "1") + Client::posted("/q", "2")));
  EXPECT_EQ(c.answer().body, "/q1");
  EXPECT_EQ(c.answer().body, "/q2");
  const Answer last = c.ask("GET /z HTTP/1.1\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(last.body, "/z");
  EXPECT_FALSE(c.receive());
}

TEST(HttpServer, StreamsInChunks) {
  Running server({}, [](const HttpRequest&, Responder& s) {
    ASSERT_TRUE(s.begin(200, "text/event-stream"));
    for (const char* part : {"one", "two", "three"}) EXPECT_TRUE(s.send(part));
  });
  Client c(server.port());
  const Answer a = c.get("/");
  EXPECT_TRUE(a.complete);
  EXPECT_EQ(a.body, "onetwothree");
  EXPECT_NE(a.head.find("text/event-stream"), a.head.npos);
  // HTTP/1.0 has no chunks: the end of the connection ends the body.
  Client old(server.port());
  ASSERT_TRUE(old.send("GET / HTTP/1.0\r\n\r\n"));
  while (old.receive()) {
  }
  EXPECT_TRUE(old.received().ends_with("\r\n\r\nonetwothree")) << old.received();
}

TEST(HttpServer, RefusesTooManyConnections) {
  ServerOptions o;
  o.connections = 2;
  Running server(o, echo);
  Client a(server.port()), b(server.port());
  EXPECT_EQ(a.get("/").status, 200);
  EXPECT_EQ(b.get("/").status, 200);
  Client c(server.port());
  EXPECT_EQ(c.answer().status, 503);
  a.close();
  for (int i = 0; i < 100; ++i) {
    Client again(server.port());
    if (again.get("/").status == 200) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  ADD_FAILURE() << "the connection was not freed";
}

TEST(HttpServer, DropsSlowClients) {
  ServerOptions o;
  o.request_s = 0.3;
  o.idle_s = 0.3;
  Running server(o, echo);
  Client slow(server.port());
  ASSERT_TRUE(slow.send("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n123"));
  EXPECT_EQ(slow.answer().status, 408);
  Client idle(server.port());
  EXPECT_FALSE(idle.receive());
}

// Empty lines before a request are allowed, but they are no request.
TEST(HttpServer, DropsClientsThatSendOnlyEmptyLines) {
  ServerOptions o;
  o.request_s = 60;
  o.idle_s = 0.5;
  Running server(o, echo);
  for (const char* piece : {"\r\n", "\r|\n"}) {
    Client c(server.port());
    const timeval now = {0, 1};
    ::setsockopt(c.descriptor(), SOL_SOCKET, SO_RCVTIMEO, &now, sizeof now);
    const auto closed = [&] {
      char byte;
      const ssize_t n = ::recv(c.descriptor(), &byte, 1, 0);
      return n == 0 || (n < 0 && errno != EAGAIN);
    };
    bool ended = false;
    for (int i = 0; i < 100 && !ended; ++i) {
      const std::string_view bytes = piece;
      const size_t half = bytes.find('|');
      c.send(half == bytes.npos ? bytes
             : i % 2 == 0       ? bytes.substr(0, half)
                                : bytes.substr(half + 1));
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      ended = closed();
    }
    EXPECT_TRUE(ended) << piece;
  }
  Client late(server.port());
  EXPECT_EQ(late.ask("\r\n\r\nGET /a HTTP/1.1\r\n\r\n").body, "/a");
}

// A stack larger than the address space: no thread can be created.
TEST(HttpServer, GoesOnWithoutAThreadForAConnection) {
  Running server({}, echo);
  Client before(server.port());
  EXPECT_EQ(before.get("/").status, 200);
  pthread_attr_t usual, huge;
  ASSERT_EQ(::pthread_getattr_default_np(&usual), 0);
  ASSERT_EQ(::pthread_attr_init(&huge), 0);
  ASSERT_EQ(::pthread_attr_setstacksize(&huge, size_t{1} << 50), 0);
  ASSERT_EQ(::pthread_setattr_default_np(&huge), 0);
  for (int i = 0; i < 3; ++i) {
    Client c(server.port());
    const Answer a = c.answer();
    EXPECT_EQ(a.status, 503);
    EXPECT_NE(a.head.find("Retry-After"), a.head.npos);
  }
  ASSERT_EQ(::pthread_setattr_default_np(&usual), 0);
  ::pthread_attr_destroy(&huge);
  ::pthread_attr_destroy(&usual);
  EXPECT_EQ(before.get("/").status, 200);
  EXPECT_EQ(Client(server.port()).get("/").status, 200);
}

TEST(HttpServer, GoesOnWithoutMemoryForARequest) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer ends the program when memory is missing";
#endif
  ServerOptions o;
  o.limits.body_bytes = size_t{1} << 40;
  Running server(o, echo);
  Client large(server.port());
  EXPECT_EQ(large.get("/").status, 200);
  rlimit usual = {};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &usual), 0);
  long pages = 0;
  std::FILE* const f = std::fopen("/proc/self/statm", "r");
  ASSERT_EQ(std::fscanf(f, "%ld", &pages), 1);
  std::fclose(f);
  const std::string piece(1 << 20, 'x');
  rlimit low = usual;
  low.rlim_cur = static_cast<rlim_t>(pages) * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) +
                 (rlim_t{128} << 20);
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &low), 0);
  bool sent = large.send("POST / HTTP/1.1\r\nContent-Length: 4294967296\r\n\r\n");
  for (int i = 0; i < 4096 && sent; ++i) sent = large.send(piece);
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &usual), 0);
  EXPECT_FALSE(sent);
  EXPECT_EQ(Client(server.port()).get("/").status, 200);
}

// The client is still sending when it is refused, and reads why.
TEST(HttpServer, ExplainsWhyALargeBodyIsRefused) {
  ServerOptions o;
  o.limits.body_bytes = 1000;
  Running server(o, echo);
  Client c(server.port());
  const std::string body(1 << 20, 'x');
  const Answer a = c.post("/", body);
  EXPECT_EQ(a.status, 413);
  EXPECT_NE(a.body.find("expected at most 1000"), a.body.npos) << a.body;
}

TEST(HttpServer, NoticesThatTheClientLeft) {
  std::atomic<int> left = 0;
  Running server({}, [&](const HttpRequest&, Responder& s) {
    for (int i = 0; i < 500 && left == 0; ++i) {
      if (s.client_gone()) left = 1;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    s.respond(200, "text/plain", "");
  });
  Client c(server.port());
  ASSERT_TRUE(c.send("GET / HTTP/1.1\r\n\r\n"));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(left, 0);
  c.close();
  for (int i = 0; i < 500 && left == 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_EQ(left, 1);
}

TEST(HttpServer, AnswersExceptionsWithStatus500) {
  Running server({}, [](const HttpRequest&, Responder&) { throw Error("on purpose"); });
  Client c(server.port());
  EXPECT_EQ(c.get("/").status, 500);
}

TEST(HttpServer, CompletesWhatItReceivedWhenItStops) {
  std::atomic<bool> begun = false;
  Running server({}, [&](const HttpRequest&, Responder& s) {
    begun = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    s.respond(200, "text/plain", "done");
  });
  Client waiting(server.port()), idle(server.port());
  ASSERT_TRUE(waiting.send("GET / HTTP/1.1\r\n\r\n"));
  while (!begun) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  server.stop();
  const Answer a = waiting.answer();
  EXPECT_EQ(a.body, "done");
  EXPECT_NE(a.head.find("Connection: close"), a.head.npos);
  EXPECT_FALSE(idle.receive());
}

// Half a request, and an answer that its client does not read.
TEST(HttpServer, AStopWaitsForNoClient) {
  ServerOptions o;
  o.request_s = o.write_s = 60;
  std::atomic<bool> begun = false;
  Running server(o, [&](const HttpRequest&, Responder& s) {
    begun = true;
    s.respond(200, "text/plain", std::string(64 << 20, 'x'));
  });
  Client half(server.port()), full(server.port());
  ASSERT_TRUE(half.send("GET / HT"));
  ASSERT_TRUE(full.send("GET / HTTP/1.1\r\n\r\n"));
  while (!begun) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto stopped = std::chrono::steady_clock::now();
  server.stop();
  EXPECT_LT(std::chrono::steady_clock::now() - stopped, std::chrono::seconds(15));
  EXPECT_EQ(half.answer().status, 503);
}

TEST(HttpServer, RefusesAPortInUseAndANameAsAddress) {
  Running server({}, echo);
  ServerOptions o;
  o.port = server.port();
  EXPECT_THROW(HttpServer{o}, Error);
  o.host = "localhost";
  EXPECT_THROW(HttpServer{o}, Error);
}

}  // namespace
}  // namespace tessera::serve
