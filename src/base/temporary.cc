// Temporary names contain the identity of their process, so that a later process can find out
// whether the file is still being written. A random suffix makes the names of one process unique.
#include "base/temporary.h"

#include <sys/random.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <vector>

#include "base/error.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".part";
constexpr std::chrono::hours kQuiet(1);

uint32_t random_bits() {
  uint32_t bits = 0;
  // A request this small is never answered partially, and blocks only during boot.
  const ssize_t n = ::getrandom(&bits, sizeof bits, 0);
  CHECK(n == sizeof bits, "getrandom() returned {}", n);
  return bits;
}

// Parses the number up to the next '-' or the end, and removes it from `text`.
bool take_number(std::string_view& text, int base, uint64_t& value) {
  const size_t end = text.find('-');
  const std::string_view one = text.substr(0, end);
  const auto [at, error] = std::from_chars(one.data(), one.data() + one.size(), value, base);
  text.remove_prefix(end == text.npos ? text.size() : end + 1);
  return error == std::errc() && at == one.data() + one.size() && !one.empty();
}

// Returns the newest modification time of a file, or of a folder and its direct entries.
std::optional<fs::file_time_type> last_written(const Path& path) {
  std::error_code error;
  fs::file_time_type newest = fs::last_write_time(path, error);
  if (error) return std::nullopt;
  if (!fs::is_directory(fs::symlink_status(path, error))) return newest;
  std::error_code ends;
  for (fs::directory_iterator at(path, ends), end; !ends && at != end; at.increment(ends)) {
    const fs::file_time_type time = fs::last_write_time(at->path(), error);
    if (!error) newest = std::max(newest, time);
  }
  return newest;
}

}  // namespace

Path temporary_name(const Path& path) {
  const ProcessIdentity p = this_process();
  Path name = path;
  name +=
      fmt::format(".{:08x}-{}-{:x}-{:08x}{}", p.machine, p.pid, p.start, random_bits(), kSuffix);
  return name;
}

std::optional<TemporaryName> parse_temporary(std::string_view name) {
  if (!name.ends_with(kSuffix)) return std::nullopt;
  name.remove_suffix(kSuffix.size());
  const size_t dot = name.rfind('.');
  if (dot == name.npos || dot == 0) return std::nullopt;
  std::string_view token = name.substr(dot + 1);
  uint64_t machine = 0, pid = 0, start = 0, random = 0;
  if (!take_number(token, 16, machine) || !take_number(token, 10, pid) ||
      !take_number(token, 16, start) || !take_number(token, 16, random) || !token.empty())
    return std::nullopt;
  return TemporaryName{
      std::string(name.substr(0, dot)),
      {static_cast<uint32_t>(machine), static_cast<int64_t>(pid), static_cast<int64_t>(start)}};
}

bool is_abandoned(const Path& temporary, const ProcessIdentity& maker, const Path& fresh) {
  const Running now = running(maker);
  if (now != Running::kUnknown) return now == Running::kNo;
  const auto then = last_written(temporary), reference = last_written(fresh);
  return then && reference && *reference - *then > kQuiet;
}

void remove_abandoned(const Path& path, const Path& fresh) {
  const std::string name = path.filename().string();
  std::error_code error;
  // The directory is read completely before anything is removed, because removing entries of a
  // directory that is being read may skip others.
  const Path folder = path.has_parent_path() ? path.parent_path() : Path(".");
  std::vector<Path> abandoned;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string other = at->path().filename().string();
    if (!other.starts_with(name)) continue;
    const std::optional<TemporaryName> t = parse_temporary(other);
    if (t && t->base == name && is_abandoned(at->path(), t->maker, fresh))
      abandoned.push_back(at->path());
  }
  for (const Path& p : abandoned) fs::remove_all(p, error);
}

}  // namespace tessera
