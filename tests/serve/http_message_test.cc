#include "serve/http_message.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace tessera::serve {
namespace {

using State = HttpReader::State;

// Reads the bytes in one piece, and byte by byte: both must say the same.
HttpReader read(const std::string& bytes, State expected, const HttpLimits& limits = {}) {
  HttpReader whole(limits), single(limits);
  EXPECT_EQ(whole.add(bytes), expected) << bytes;
  State state = State::kIncomplete;
  for (const char c : bytes)
    if (state == State::kIncomplete) state = single.add({&c, 1});
  EXPECT_EQ(state, expected) << bytes;
  EXPECT_EQ(single.status(), whole.status()) << bytes;
  return whole;
}

TEST(HttpReader, ReadsABodyByItsLength) {
  HttpReader r = read(
      "POST /v1/completions?x=1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX-Two:  b "
      "\r\n\r\nhello",
      State::kComplete);
  const HttpRequest q = r.take();
  EXPECT_EQ(q.method, "POST");
  EXPECT_EQ(q.path, "/v1/completions");
  EXPECT_EQ(q.body, "hello");
  EXPECT_TRUE(q.keep_alive);
  ASSERT_NE(q.header("x-two"), nullptr);
  EXPECT_EQ(*q.header("x-two"), "b");
  EXPECT_EQ(q.header("none"), nullptr);
}

TEST(HttpReader, ReadsChunks) {
  HttpReader r = read(
      "POST / HTTP/1.1\r\nTransfer-Encoding: "
      "chunked\r\n\r\n3;a=b\r\nabc\r\nA\r\n0123456789\r\n0\r\n"
      "Trailer: x\r\n\r\n",
      State::kComplete);
  EXPECT_EQ(r.take().body, "abc0123456789");
}

TEST(HttpReader, KeepsTheNextRequest) {
  HttpReader r{HttpLimits{}};
  EXPECT_EQ(r.add("GET /a HTTP/1.1\r\n\r\nGET /b HTTP/1.1\r\nConnection: close\r\n\r\n"),
            State::kComplete);
  EXPECT_EQ(r.take().path, "/a");
  EXPECT_EQ(r.add(""), State::kComplete);
  const HttpRequest b = r.take();
  EXPECT_EQ(b.path, "/b");
  EXPECT_FALSE(b.keep_alive);
  EXPECT_FALSE(r.begun());
  EXPECT_EQ(r.add(""), State::kIncomplete);
}

TEST(HttpReader, ClosesHttp10UnlessAsked) {
  EXPECT_FALSE(read("GET / HTTP/1.0\r\n\r\n", State::kComplete).take().keep_alive);
  EXPECT_TRUE(
      read("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", State::kComplete).take().keep_alive);
}

TEST(HttpReader, SaysWhenTheClientWaitsForContinue) {
  HttpReader r{HttpLimits{}};
  EXPECT_EQ(r.add("POST / HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n"),
            State::kIncomplete);
  EXPECT_TRUE(r.take_expectation());
  EXPECT_FALSE(r.take_expectation());
  EXPECT_EQ(r.add("x"), State::kComplete);
}

TEST(HttpReader, RefusesWhatIsMalformedOrAmbiguous) {
  const auto status = [](const std::string& bytes) { return read(bytes, State::kBad).status(); };
  EXPECT_EQ(status("nonsense\r\n\r\n"), 400);
  EXPECT_EQ(status("GET /\r\n\r\n"), 400);
  EXPECT_EQ(status("GET / FTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status("GET / HTTP/2.0\r\n\r\n"), 505);
  EXPECT_EQ(status("GET a HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status("GET /a b HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status("G(T / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nno colon\r\n\r\n"), 400);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nspace : x\r\n\r\n"), 400);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nA: b\r\n folded\r\n\r\n"), 400);
  EXPECT_EQ(status(std::string("GET / HTTP/1.1\r\nA: \0\r\n\r\n", 24)), 400);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"), 400);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"), 400);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n"), 400);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n"),
            400);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n"), 501);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"), 400);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n"), 400);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nExpect: tea\r\n\r\n"), 417);
}

TEST(HttpReader, RefusesWhatIsTooLarge) {
  const HttpLimits limits{.header_bytes = 100, .body_bytes = 10, .headers = 3};
  const auto status = [&](const std::string& bytes) {
    return read(bytes, State::kBad, limits).status();
  };
  EXPECT_EQ(status("GET /" + std::string(200, 'a')), 431);
  EXPECT_EQ(status("GET / HTTP/1.1\r\nA: b\r\nC: d\r\nE: f\r\nG: h\r\n\r\n"), 431);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nContent-Length: 11\r\n\r\n"), 413);
  EXPECT_EQ(status("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nabcdef\r\n5\r\n"),
            413);
  read("POST / HTTP/1.1\r\nContent-Length: 10\r\n\r\n0123456789", State::kComplete, limits);
}

TEST(Response, HasALengthOrChunks) {
  EXPECT_EQ(response_head(200, "text/plain", 3, true),
            "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n"
            "Connection: keep-alive\r\n\r\n");
  EXPECT_EQ(chunk_of("0123456789abcdef!"), "11\r\n0123456789abcdef!\r\n");
}

}  // namespace
}  // namespace tessera::serve
