// Crash-safe creation, replacement and removal of folders, by rename(2), which is atomic, and fsync
// of the parent folder, which makes a rename survive a crash. A folder is filled under a temporary
// name and becomes visible by a rename; it is removed by renaming it to a temporary name first. A
// crash therefore leaves a folder that is complete or one whose name shows that it is not.
#include "checkpoint/durable.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "base/temporary.h"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;

Path parent_of(const Path& path) { return path.has_parent_path() ? path.parent_path() : Path("."); }

void empty_out(const Path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) throw Error("{}: cannot be removed: {}", folder.string(), error.message());
}

void rename_folder(const Path& from, const Path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    throw FileError(from, fmt::format("cannot be renamed to {}", to.string()), errno);
}

}  // namespace

void sync_folder(const Path& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw Error("{}: cannot be opened: {}", folder.string(), std::strerror(errno));
  const int result = ::fsync(fd);
  const int reason = errno;
  ::close(fd);
  if (result != 0)
    throw Error("{}: cannot be flushed to the disk: {}", folder.string(), std::strerror(reason));
}

void make_folder(const Path& folder) {
  std::error_code error;
  if (fs::is_directory(folder, error)) return;
  const Path above = parent_of(folder);
  if (above != folder) make_folder(above);
  fs::create_directory(folder, error);
  if (error == std::errc::not_a_directory || error == std::errc::file_exists)
    throw Error("{}: cannot create directory: a path in it is a file. Choose another path.",
                folder.string());
  if (error) throw Error("{}: cannot be created: {}", folder.string(), error.message());
  // Without this, a crash may lose the new folder and everything that was flushed into it.
  sync_folder(above);
}

Path make_part_folder(const Path& place) {
  make_folder(parent_of(place));
  Path part = temporary_name(place);
  while (::mkdir(part.c_str(), 0777) != 0) {
    if (errno != EEXIST) throw FileError(part, "cannot be created", errno);
    part = temporary_name(place);
  }
  sync_folder(parent_of(place));
  // Only folders of processes that have ended are removed; `part` supplies the current time of the
  // file system (base/temporary.h).
  remove_abandoned(place, part);
  return part;
}

void put_folder(const Path& part, const Path& place) {
  const bool replaces = ::access(place.c_str(), F_OK) == 0;
  if (!replaces) return put_new_folder(part, place);
  // RENAME_EXCHANGE swaps the two names atomically, so `place` always names a complete checkpoint.
  // Afterwards `part` names the old one.
  if (::renameat2(AT_FDCWD, part.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) != 0) {
    // Some network file systems cannot exchange two names in one step. Between two renames, nothing
    // exists at `place`, but both folders are complete under their other names.
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
      throw FileError(part, fmt::format("cannot be exchanged with {}", place.string()), errno);
    const Path old = temporary_name(place);
    rename_folder(place, old);
    rename_folder(part, place);
    sync_folder(parent_of(place));
    empty_out(old);
    return;
  }
  sync_folder(parent_of(place));
  empty_out(part);
}

void put_new_folder(const Path& part, const Path& place) {
  // rename() replaces an empty folder and fails for one that has entries.
  if (::rename(part.c_str(), place.c_str()) != 0) {
    if (errno == ENOTEMPTY || errno == EEXIST || errno == ENOTDIR)
      throw Error("{}: exists already. Choose another path, or remove it first.", place.string());
    throw FileError(part, fmt::format("cannot be renamed to {}", place.string()), errno);
  }
  sync_folder(parent_of(place));
}

void move_folder(const Path& folder, const Path& place) {
  // RENAME_NOREPLACE is atomic. The fallback below checks first, which leaves a short race with
  // another process that creates `place`.
  if (::renameat2(AT_FDCWD, folder.c_str(), AT_FDCWD, place.c_str(), RENAME_NOREPLACE) == 0) return;
  const bool unsupported = errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP;
  if (!unsupported)
    throw FileError(folder, fmt::format("cannot be renamed to {}", place.string()), errno);
  struct stat there {};
  if (::lstat(place.c_str(), &there) == 0)
    throw Error("{}: cannot be renamed to {}, which exists. Remove or rename the latter.",
                folder.string(), place.string());
  rename_folder(folder, place);
}

void remove_folder(const Path& folder) {
  // After the rename the folder no longer counts as a checkpoint, so a crash while its files are
  // removed leaves nothing that looks like one.
  const Path part = temporary_name(folder);
  rename_folder(folder, part);
  sync_folder(parent_of(folder));
  empty_out(part);
}

PartFolder::PartFolder(const Path& place) : place_(place), part_(make_part_folder(place)) {}

PartFolder::~PartFolder() {
  std::error_code ignored;
  if (!done_) std::filesystem::remove_all(part_, ignored);
}

void PartFolder::put() {
  sync_folder(part_);
  put_new_folder(part_, place_);
  done_ = true;
}

}  // namespace tessera::checkpoint
