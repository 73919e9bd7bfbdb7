// Parses HTTP/1.1 requests strictly: what two servers could read differently (both a length and a
// transfer coding, folded lines, spaces before a colon) is rejected, since such requests are used
// to smuggle others.
//
// A state machine over a buffer: head, then a body of known length or chunks with a trailer. add()
// consumes what is complete and keeps the rest, so bytes may arrive in any pieces, and a request
// that follows in the same packet (pipelining) stays in the buffer. Sizes are checked against the
// limits before memory is reserved for them, and the search for the end of the head continues where
// the last one ended, so its time is linear in the bytes of the head.
//
// References: RFC 9110 (fields) and RFC 9112 (framing, and its section 11 on request smuggling).
#include "serve/http_message.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"

namespace tessera::serve {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string lowered(std::string_view s) {
  std::string out(s);
  std::ranges::transform(out, out.begin(), lower);
  return out;
}

// The characters of a token (RFC 9110, 5.6.2): of methods and of header names.
bool is_token(std::string_view s) {
  constexpr std::string_view kOther = "!#$%&'*+-.^_`|~";
  return !s.empty() && std::ranges::all_of(s, [&](char c) {
    return (c >= '0' && c <= '9') || (lower(c) >= 'a' && lower(c) <= 'z') ||
           kOther.find(c) != kOther.npos;
  });
}

bool is_text(std::string_view s) {
  return std::ranges::all_of(s, [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte == '\t' || (byte >= 0x20 && byte != 0x7F);
  });
}

std::string_view trimmed(std::string_view s) {
  const size_t first = s.find_first_not_of(" \t");
  if (first == s.npos) return {};
  return s.substr(first, s.find_last_not_of(" \t") - first + 1);
}

// Parses a whole number that has no sign. Returns false for anything else, and on overflow.
bool parse_number(std::string_view s, int base, size_t& out) {
  if (s.empty() || s.front() == '-' || s.front() == '+') return false;
  const auto r = std::from_chars(s.data(), s.data() + s.size(), out, base);
  return r.ec == std::errc() && r.ptr == s.data() + s.size();
}

}  // namespace

const std::string* HttpRequest::header(std::string_view name) const {
  const auto it = std::ranges::find(headers, name, &std::pair<std::string, std::string>::first);
  return it == headers.end() ? nullptr : &it->second;
}

HttpReader::State HttpReader::add(std::string_view bytes) {
  buffer_ += bytes;
  advance();
  if (part_ == Part::kBad) return State::kBad;
  return part_ == Part::kComplete ? State::kComplete : State::kIncomplete;
}

bool HttpReader::bad(int status, std::string problem) {
  part_ = Part::kBad;
  status_ = status;
  problem_ = std::move(problem);
  buffer_.clear();
  return false;
}

// Reads parts while each is complete.
void HttpReader::advance() {
  for (bool more = true; more;) {
    switch (part_) {
      case Part::kHead:
        more = read_head();
        break;
      case Part::kBody:
        more = read_body();
        break;
      case Part::kChunkSize:
        more = read_chunk_size();
        break;
      case Part::kChunk:
        more = read_chunk();
        break;
      case Part::kTrailer:
        more = read_trailer();
        break;
      case Part::kComplete:
      case Part::kBad:
        more = false;
        break;
    }
  }
}

bool HttpReader::read_head() {
  // Empty lines before a request are allowed.
  while (buffer_.starts_with("\r\n")) buffer_.erase(0, 2);
  const size_t from = searched_ > 3 ? searched_ - 3 : 0;
  const size_t end = buffer_.find("\r\n\r\n", from);
  searched_ = buffer_.size();
  if (std::min(end, buffer_.size()) > limits_.header_bytes)
    return bad(431,
               fmt::format("the request line and headers exceed {} bytes.", limits_.header_bytes));
  if (end == buffer_.npos) return false;
  const std::string head = buffer_.substr(0, end);
  buffer_.erase(0, end + 4);
  searched_ = 0;
  return parse_head(head) && set_framing();
}

bool HttpReader::parse_head(std::string_view head) {
  size_t end = std::min(head.find("\r\n"), head.size());
  if (!parse_line(head.substr(0, end))) return false;
  while (end < head.size()) {
    head.remove_prefix(end + 2);
    end = std::min(head.find("\r\n"), head.size());
    const std::string_view line = head.substr(0, end);
    const size_t colon = line.find(':');
    if (colon == line.npos || !is_token(line.substr(0, colon)) || !is_text(line))
      return bad(400, "a header is malformed.");
    if (request_.headers.size() == limits_.headers)
      return bad(431, fmt::format("the request has more than {} headers.", limits_.headers));
    request_.headers.emplace_back(lowered(line.substr(0, colon)),
                                  std::string(trimmed(line.substr(colon + 1))));
  }
  return true;
}

bool HttpReader::parse_line(std::string_view line) {
  const size_t first = line.find(' '), second = line.rfind(' ');
  if (first == line.npos || first == second || !is_token(line.substr(0, first)))
    return bad(400, "the request line is malformed.");
  const std::string_view target = line.substr(first + 1, second - first - 1);
  const std::string_view version = line.substr(second + 1);
  if (!version.starts_with("HTTP/")) return bad(400, "the request line is malformed.");
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    return bad(505, "only HTTP/1.0 and HTTP/1.1 are supported.");
  if (target.empty() || target[0] != '/' || !is_text(target) || target.find(' ') != target.npos)
    return bad(400, "the request target is malformed; expected a path.");
  request_.method = line.substr(0, first);
  request_.path = target.substr(0, target.find('?'));
  request_.is_http_1_0 = version == "HTTP/1.0";
  return true;
}

// Decides how long the body is. A request with both a length and chunks, or with two different
// lengths, is an error: a proxy in front of this server may have chosen the other one.
bool HttpReader::set_framing() {
  const std::string* length = nullptr;
  bool chunked = false;
  request_.keep_alive = !request_.is_http_1_0;
  for (const auto& [name, value] : request_.headers) {
    if (name == "content-length") {
      if (length != nullptr && *length != value)
        return bad(400, "the request has two different lengths.");
      length = &value;
    } else if (name == "transfer-encoding") {
      if (chunked || lowered(value) != "chunked")
        return bad(501, "the only transfer coding that is supported is chunked.");
      chunked = true;
    } else if (name == "connection") {
      const std::string v = lowered(value);
      if (v.find("close") != v.npos) request_.keep_alive = false;
      if (v.find("keep-alive") != v.npos) request_.keep_alive = true;
    } else if (name == "expect") {
      if (lowered(value) != "100-continue") return bad(417, "the expectation is not supported.");
      expects_ = true;
    }
  }
  if (chunked && length != nullptr)
    return bad(400, "the request has both a length and a transfer coding.");
  if (chunked) {
    part_ = Part::kChunkSize;
    return true;
  }
  needed_ = 0;
  if (length != nullptr && !parse_number(*length, 10, needed_))
    return bad(400, "Content-Length is not a number.");
  if (needed_ > limits_.body_bytes)
    return bad(413, fmt::format("the body has {} bytes, expected at most {}.", needed_,
                                limits_.body_bytes));
  part_ = Part::kBody;
  return true;
}

bool HttpReader::read_body() {
  const size_t n = std::min(needed_, buffer_.size());
  request_.body.append(buffer_, 0, n);
  buffer_.erase(0, n);
  needed_ -= n;
  if (needed_ > 0) return false;
  part_ = Part::kComplete;
  return false;
}

bool HttpReader::read_chunk_size() {
  constexpr size_t kLongestLine = 256;
  const size_t end = buffer_.find("\r\n");
  if (end == buffer_.npos && buffer_.size() <= kLongestLine) return false;
  if (end == buffer_.npos || end > kLongestLine)
    return bad(400, "the size of a chunk is malformed.");
  const std::string_view line = std::string_view(buffer_).substr(0, end);
  if (!parse_number(trimmed(line.substr(0, line.find(';'))), 16, needed_))
    return bad(400, "the size of a chunk is malformed.");
  buffer_.erase(0, end + 2);
  if (needed_ > limits_.body_bytes - request_.body.size())
    return bad(413, fmt::format("the body exceeds {} bytes.", limits_.body_bytes));
  part_ = needed_ == 0 ? Part::kTrailer : Part::kChunk;
  return true;
}

bool HttpReader::read_chunk() {
  const size_t n = std::min(needed_, buffer_.size());
  request_.body.append(buffer_, 0, n);
  buffer_.erase(0, n);
  needed_ -= n;
  if (needed_ > 0 || buffer_.size() < 2) return false;
  if (!buffer_.starts_with("\r\n")) return bad(400, "a chunk is longer than its size.");
  buffer_.erase(0, 2);
  part_ = Part::kChunkSize;
  return true;
}

// Trailers are read and ignored, up to the empty line.
bool HttpReader::read_trailer() {
  const size_t end = buffer_.find("\r\n");
  if (std::min(end, buffer_.size()) > limits_.header_bytes)
    return bad(431, "the trailers are too long.");
  if (end == buffer_.npos) return false;
  buffer_.erase(0, end + 2);
  if (end == 0)
    part_ = Part::kComplete;
  else if (++searched_ > limits_.headers)
    return bad(431, "the request has too many trailers.");
  return true;
}

HttpRequest HttpReader::take() {
  CHECK(part_ == Part::kComplete, "no request is complete");
  HttpRequest r = std::move(request_);
  request_ = {};
  part_ = Part::kHead;
  searched_ = 0;
  expects_ = false;
  return r;
}

bool HttpReader::take_expectation() {
  return (part_ == Part::kBody || part_ == Part::kChunkSize) && std::exchange(expects_, false);
}

std::string_view reason_of(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 408:
      return "Request Timeout";
    case 413:
      return "Content Too Large";
    case 417:
      return "Expectation Failed";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 503:
      return "Service Unavailable";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Error";
  }
}

std::string response_head(int status, std::string_view content_type, int64_t length,
                          bool keep_alive, std::string_view extra_headers) {
  std::string framing = length < 0 ? "Transfer-Encoding: chunked\r\nCache-Control: no-cache\r\n"
                                   : fmt::format("Content-Length: {}\r\n", length);
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n{}Connection: {}\r\n{}\r\n", status,
                     reason_of(status), content_type, framing, keep_alive ? "keep-alive" : "close",
                     extra_headers);
}

std::string chunk_of(std::string_view data) {
  return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

}  // namespace tessera::serve
