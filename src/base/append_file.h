// Appends records to a file as a best effort: a full disk, a removed file or an unreachable mount
// never ends the program.
#pragma once

#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "base/file.h"

namespace tessera {

// Records are written in order, each completely or not at all: a record that a full disk cut off is
// removed again. Records that cannot be written are kept in memory (the newest 16 MiB) and written
// by a later call that succeeds. If the file was removed, it is opened again, or created with its
// parent directories. Thread safe.
class AppendFile {
 public:
  // `head` is written first if the file is empty. `owned`, if given, is called after the file was
  // opened; false: the path now belongs to another process, and nothing is written to it.
  explicit AppendFile(Path path, std::string head = "", std::function<bool()> owned = nullptr);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view record);
  void sync();  // flushes the records to the disk

  // Returns a message once when records can no longer be written, with the path and the reason, and
  // once when they can be written again. Otherwise returns nothing.
  std::optional<std::string> take_report();

  const Path& path() const { return path_; }

 private:
  void write_late();
  void reopen();
  void write_whole(std::string_view record);
  void failed(const std::string& what);

  Path path_;
  std::string head_;
  std::function<bool()> owned_;
  std::mutex mutex_;  // protects the members below
  int fd_ = -1;
  bool failing_ = false;
  std::deque<std::string> late_;  // records that are not written yet
  size_t late_bytes_ = 0, dropped_ = 0;
  std::optional<std::string> report_;
};

}  // namespace tessera
