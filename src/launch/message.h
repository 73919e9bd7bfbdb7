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

namespace tessera::launch {

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
  int64_t code = 1;  // fail: the exit code of the rank
  // beat
  int64_t step = 0;    // 0: before the first
  double since_s = 0;  // how long it has been doing that
  bool waits = false;  // it is a communication: others may be what it waits for
  int64_t resident_bytes = 0;
};

std::string encode(const Message& message);  // with the newline
Message decode(std::string_view line);       // throws Error

// Splits a stream of bytes into lines. Holds at most one line of `longest` bytes in addition to
// what the last append() added.
class LineBuffer {
 public:
  enum class LongLine : uint8_t { kThrow, kSplit };  // what happens to a line over `longest` bytes

  explicit LineBuffer(size_t longest = size_t{4} << 20, LongLine rule = LongLine::kThrow)
      : longest_(longest), rule_(rule) {}
  void append(std::string_view bytes) { bytes_ += bytes; }
  // Sets `line` to the next line, without its newline, and returns true; returns false if there is
  // no complete line. A longer line is returned in pieces (kSplit) or throws Error (kThrow).
  bool take(std::string& line);
  bool cut() const { return cut_; }  // the last line returned continues in the next one
  std::string rest() const { return bytes_.substr(start_); }  // what has no newline yet

 private:
  size_t longest_;
  LongLine rule_;
  std::string bytes_;
  size_t start_ = 0, searched_ = 0;  // bytes_[start_, searched_) has no newline
  bool cut_ = false;
};

}  // namespace tessera::launch
