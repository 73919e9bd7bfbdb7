// Any bytes as HTTP requests, and as the bodies of both kinds of completions. The first byte
// chooses how many bytes arrive at a time: the answer must not depend on it.
#include "base/error.h"
#include "serve/api_request.h"
#include "serve/http_message.h"

namespace tessera {
namespace {

using serve::HttpReader;

struct Outcome {
  int requests = 0, status = 0;
  size_t bytes = 0;
  bool operator==(const Outcome&) const = default;
};

void read_body(const std::string& body) {
  for (const bool chat : {false, true}) {
    try {
      const serve::ApiRequest r = chat ? serve::read_chat(body) : serve::read_completion(body);
      CHECK(r.n >= 1 && r.n <= 16 && r.prompts.size() <= 16, "{} texts of {} prompts", r.n,
            r.prompts.size());
    } catch (const serve::ApiError& e) {
      CHECK(e.status() == 400, "status {}", e.status());
    }
  }
}

Outcome read(std::string_view bytes, size_t at_a_time, bool bodies) {
  const serve::HttpLimits limits{.header_bytes = 2000, .body_bytes = 5000, .headers = 20};
  HttpReader reader(limits);
  Outcome out;
  for (size_t from = 0; from < bytes.size(); from += at_a_time) {
    HttpReader::State state = reader.add(bytes.substr(from, at_a_time));
    while (state == HttpReader::State::kComplete) {
      const serve::HttpRequest r = reader.take();
      CHECK(r.path.starts_with('/') && r.body.size() <= limits.body_bytes &&
                r.headers.size() <= limits.headers,
            "a body of {} bytes and {} headers", r.body.size(), r.headers.size());
      if (bodies) read_body(r.body);
      ++out.requests;
      out.bytes += r.body.size();
      state = reader.add("");
    }
    if (state == HttpReader::State::kBad) {
      out.status = reader.status();
      CHECK(out.status >= 400 && !reader.problem().empty(), "status {}", out.status);
      break;
    }
  }
  return out;
}

}  // namespace
}  // namespace tessera

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  using namespace tessera;
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const Outcome whole = read(bytes, bytes.size() + 1, true);
  const Outcome parts = read(bytes, 1 + data[0] % 64, false);
  // A header that is too long may be refused earlier if it arrives in parts, never otherwise.
  CHECK(parts == whole ||
            (whole.status != 0 && parts.status != 0 && parts.requests == whole.requests),
        "{} requests, then {}; in parts {}, then {}", whole.requests, whole.status, parts.requests,
        parts.status);
  read_body(std::string(bytes));
  return 0;
}
