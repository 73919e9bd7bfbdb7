// Writes and reads the text of a lock file. A crash may leave an incomplete text.
#include "base/owner_lock.h"

#include <algorithm>
#include <string_view>

#include "base/tree.h"

namespace tessera {
namespace {

constexpr std::string_view kMark = "{\"tessera_lock\":";

// A record that a crash cut off lacks members: numbers are then read as 0 and texts as empty.
int64_t number(const Tree& t, const char* key) {
  const Tree* member = t.find(key);
  const auto* n = member ? std::get_if<int64_t>(&member->value) : nullptr;
  return n ? *n : 0;
}

std::string text(const Tree& t, const char* key) {
  const Tree* member = t.find(key);
  const std::string* s = member ? member->as_string() : nullptr;
  return s ? *s : "";
}

}  // namespace

std::string to_text(const LockOwner& o) {
  Tree t;
  t.set("tessera_lock", Tree(int64_t{1}));
  t.set("host", Tree(o.host));
  t.set("pid", Tree(o.process.pid));
  t.set("started", Tree(o.started));
  t.set("boot", Tree(int64_t{o.boot}));
  t.set("machine", Tree(int64_t{o.process.machine}));
  t.set("process_start", Tree(o.process.start));
  t.set("token", Tree(o.token));
  return to_json(t) + "\n";
}

std::optional<LockOwner> owner_of(const std::string& record, const Path& file) {
  try {
    const Tree t = parse_json(record, file.string());
    if (t.find("tessera_lock") == nullptr) return std::nullopt;
    return LockOwner{
        text(t, "host"),
        {static_cast<uint32_t>(number(t, "machine")), number(t, "pid"), number(t, "process_start")},
        static_cast<uint32_t>(number(t, "boot")),
        text(t, "started"),
        text(t, "token")};
  } catch (const Error&) {
    return std::nullopt;
  }
}

bool may_be_ours(const std::string& record) {
  const bool empty = std::all_of(record.begin(), record.end(), [](char c) { return c == '\0'; });
  const size_t n = std::min(record.size(), kMark.size());
  return empty || std::string_view(record).substr(0, n) == kMark.substr(0, n);
}

}  // namespace tessera
