// The messages between a rank and the monitor, over TCP: one JSON object per line.
//   rank → monitor   hello   once, first: the identity of the rank
//                    facts   once, when the configuration is known
//                    beat    every half second: what the rank is doing
//                    fail    an error, before the rank exits
//                    bye     before a normal exit
//   monitor → rank   pulse   every half second
//                    `heard` acknowledges fail and bye
//                    stop    finish the step, save and exit
//                    end     exit at once
// Unknown members are ignored, so that another version of the program can still report its version.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::launch {

enum class MessageKind : uint8_t {
  kHello,
  kFacts,
  kHeartbeat,
  kError,
  kBye,
  kPing,
  kAck,
  kStop,
  kEnd
};

struct HeartbeatMessage {
  MessageKind kind = MessageKind::kPing;
  // hello
  std::string token, host, version;
  int64_t rank = 0, ranks = 1, pid = 0;
  int64_t memory_bytes = 0;  // memory limit of the process; 0: unknown
  double clock_s = 0;        // time of sending, in seconds since 1970
  // facts: the configuration as JSON; beat: what the rank is doing; fail: the error
  std::string text;
  int64_t code = 1;  // fail: the exit code of the rank
  // beat
  int64_t step = 0;    // 0: before the first step
  double since_s = 0;  // seconds since the activity began
  bool waits = false;  // true if the rank waits for other ranks
  int64_t resident_bytes = 0;
};

std::string encode(const HeartbeatMessage& message);  // with the newline
HeartbeatMessage decode(std::string_view line);       // throws Error

// Splits a stream of bytes into lines. Holds at most one line of `longest` bytes in addition to
// what the last append() added.
class LineBuffer {
 public:
  enum class LongLine : uint8_t { kThrow, kSplit };  // for a line over `longest` bytes

  explicit LineBuffer(size_t longest = size_t{4} << 20, LongLine rule = LongLine::kThrow)
      : longest_(longest), rule_(rule) {}
  void append(std::string_view bytes) { bytes_ += bytes; }
  // Sets `line` to the next line, without its newline, and returns true; returns false if there is
  // no complete line. A longer line is returned in pieces (kSplit) or throws Error (kThrow).
  bool take(std::string& line);
  bool cut() const { return cut_; }  // true if the last line returned continues in the next one
  std::string rest() const { return bytes_.substr(start_); }  // bytes that take() has not returned

 private:
  size_t longest_;
  LongLine rule_;
  std::string bytes_;
  size_t start_ = 0, searched_ = 0;  // bytes_[start_, searched_) has no newline
  bool cut_ = false;
};

}  // namespace tessera::launch
