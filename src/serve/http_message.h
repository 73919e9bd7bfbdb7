// HTTP/1.1 requests and responses (RFC 9112), as far as an API server needs them. A reader takes
// bytes in any pieces, so it can be tested and fuzzed without sockets.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera::serve {

struct HttpLimits {
  size_t header_bytes = 32 << 10;  // request line and headers
  size_t body_bytes = 8 << 20;
  size_t headers = 100;
};

struct HttpRequest {
  std::string method, path;                                  // path without the query
  std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
  std::string body;
  bool keep_alive = true;
  bool is_http_1_0 = false;  // has no chunked responses

  // Returns the value of the first header with that name (in lower case), or nullptr.
  const std::string* header(std::string_view name) const;
};

// Reads one request after another from a connection.
class HttpReader {
 public:
  explicit HttpReader(const HttpLimits& limits) : limits_(limits) {}

  enum class State : uint8_t { kIncomplete, kComplete, kBad };
  // Adds bytes that were received, and returns the state of the first request that was not returned
  // yet. Bytes after that request are kept. After kBad, the connection must be closed.
  State add(std::string_view bytes);
  // Returns the complete request, and begins to read the next one.
  HttpRequest take();
  // Returns whether part of a request was received. Empty lines before it do not count.
  bool begun() const { return part_ != Part::kHead || !(buffer_.empty() || buffer_ == "\r"); }
  // Returns whether the client waits for "100 Continue" before it sends the body; true once.
  bool take_expectation();

  // After kBad: the status code of the response, and what was wrong.
  int status() const { return status_; }
  const std::string& problem() const { return problem_; }

 private:
  enum class Part : uint8_t { kHead, kBody, kChunkSize, kChunk, kTrailer, kComplete, kBad };

  void advance();
  bool bad(int status, std::string problem);
  bool read_head();
  bool parse_head(std::string_view head);
  bool parse_line(std::string_view line);
  bool set_framing();
  bool read_body();
  bool read_chunk_size();
  bool read_chunk();
  bool read_trailer();

  HttpLimits limits_;
  Part part_ = Part::kHead;
  std::string buffer_;  // not yet consumed
  HttpRequest request_;
  size_t needed_ = 0;  // bytes of the body or of the chunk that are still missing
  size_t searched_ = 0;
  bool expects_ = false;
  int status_ = 0;
  std::string problem_;
};

// Returns the reason phrase of a status code.
std::string_view reason_of(int status);

// Returns the head of a response, with the empty line after it. With `length` < 0 the body has the
// chunked transfer coding.
std::string response_head(int status, std::string_view content_type, int64_t length,
                          bool keep_alive, std::string_view extra_headers = "");
// Returns the bytes of one chunk of a chunked body. REQUIRES: data is not empty.
std::string chunk_of(std::string_view data);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace tessera::serve
