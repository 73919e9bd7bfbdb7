// Encodes messages as one JSON object per line. Members of an unexpected type are ignored, like
// unknown ones, so that different versions of the program can still exchange their versions.
#include "launch/message.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/tree.h"

namespace tessera::launch {
namespace {

constexpr std::array kNames = {"hello", "facts", "beat", "fail", "bye",
                               "pulse", "heard", "stop", "end"};

void read(const Tree& tree, const char* name, std::string& value) {
  if (const Tree* t = tree.find(name); t != nullptr && t->as_string() != nullptr)
    value = *t->as_string();
}
void read(const Tree& tree, const char* name, int64_t& value) {
  const Tree* t = tree.find(name);
  if (t == nullptr) return;
  if (const auto* i = std::get_if<int64_t>(&t->value)) value = *i;
}
void read(const Tree& tree, const char* name, bool& value) {
  const Tree* t = tree.find(name);
  if (t == nullptr) return;
  if (const auto* b = std::get_if<bool>(&t->value)) value = *b;
}
void read(const Tree& tree, const char* name, double& value) {
  const Tree* t = tree.find(name);
  if (t == nullptr) return;
  value = number_in(*t).value_or(value);
}

// Visits the members of a message's kind, listed once for encoding and decoding.
void members(auto& m, auto&& visit) {
  if (m.kind == MessageKind::kHello) {
    visit("token", m.token);
    visit("host", m.host);
    visit("version", m.version);
    visit("rank", m.rank);
    visit("ranks", m.ranks);
    visit("pid", m.pid);
    visit("memory_bytes", m.memory_bytes);
    visit("clock_s", m.clock_s);
  }
  const bool has_text = m.kind == MessageKind::kFacts || m.kind == MessageKind::kHeartbeat ||
                        m.kind == MessageKind::kError;
  if (has_text) visit("text", m.text);
  if (m.kind == MessageKind::kError) visit("code", m.code);
  if (m.kind == MessageKind::kHeartbeat) {
    visit("step", m.step);
    visit("since_s", m.since_s);
    visit("waits", m.waits);
    visit("resident_bytes", m.resident_bytes);
  }
}

}  // namespace

std::string encode(const HeartbeatMessage& message) {
  Tree tree;
  tree.set("kind", Tree(std::string(kNames[static_cast<size_t>(message.kind)])));
  members(message, [&](const char* name, const auto& value) { tree.set(name, Tree(value)); });
  return to_json(tree) + "\n";
}

HeartbeatMessage decode(std::string_view line) {
  const Tree tree = parse_json(line, "message");
  std::string kind;
  read(tree, "kind", kind);
  const auto* const at = std::find(kNames.begin(), kNames.end(), kind);
  if (at == kNames.end()) throw Error("unknown message kind '{}'", kind);
  HeartbeatMessage message;
  message.kind = static_cast<MessageKind>(at - kNames.begin());
  members(message, [&](const char* name, auto& value) { read(tree, name, value); });
  return message;
}

bool LineBuffer::take(std::string& line) {
  // Bytes that were searched before are not searched again, so the time for a line that arrives in
  // many parts is linear.
  const size_t end = bytes_.find('\n', searched_);
  const size_t stop = std::min(end, bytes_.size());
  cut_ = stop - start_ > longest_;
  if (cut_ && rule_ == LongLine::kThrow)
    throw Error("a line has {} bytes or more, expected at most {}", stop - start_, longest_);
  if (cut_) {
    line = bytes_.substr(start_, longest_);
    start_ = searched_ = start_ + longest_;
    return true;
  }
  if (end == bytes_.npos) {
    // Only when there is no complete line: erasing after each line would move the rest once per
    // line.
    bytes_.erase(0, start_);
    start_ = 0;
    searched_ = bytes_.size();
    return false;
  }
  line = bytes_.substr(start_, end - start_);
  start_ = searched_ = end + 1;
  return true;
}

}  // namespace tessera::launch
