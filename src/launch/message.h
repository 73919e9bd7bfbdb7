// What a rank and the process that watches it say to each other, over TCP: one JSON object a line.
//   rank → watcher   hello (once, first), facts (once, when the configuration is known), beat
//   (every
//                    half second), fail (an error, before it leaves), bye (it leaves, all is well)
//   watcher → rank   pulse (every half second), heard (answers fail and bye), stop (finish the
//   step,
//                    save, leave), end (leave at once)
// Unknown members are skipped, so that another version of the program can still say which it is.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

enum class MessageKind : uint8_t {
  kHello,
  kFacts,
  kBeat,
  kFail,
  kBye,
  kPulse,
  kHeard,
  kStop,
  kEnd
};

struct Message {
  MessageKind kind = MessageKind::kPulse;
  // hello
  std::string token, host, version;
  int64_t rank = 0, ranks = 1, pid = 0;
  int64_t memory_bytes = 0;  // what the process may use; 0: unknown
  double clock_s = 0;        // seconds since 1970, when it was sent
  // facts: the configuration as JSON; beat: what the rank is doing; fail: the error
  std::string text;
  // beat
  int64_t step = 0;    // 0: before the first
  double since_s = 0;  // how long it has been doing that
  bool waits = false;  // it is a communication: others may be what it waits for
  int64_t resident_bytes = 0;
};

std::string encode(const Message& message);  // with the newline
Message decode(std::string_view line);       // throws Error

// Lines out of a stream of bytes.
class LineBuffer {
 public:
  void append(std::string_view bytes) { bytes_ += bytes; }
  // True: `line` is the next one, without its newline. Throws Error for a line over 4 MiB, which
  // is none of ours.
  bool take(std::string& line);
  std::string rest() const { return bytes_.substr(start_); }  // what has no newline yet

 private:
  std::string bytes_;
  size_t start_ = 0;
};

}  // namespace tessera
