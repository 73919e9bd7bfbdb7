#include "checkpoint/durable.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

Path parent_of(const Path& path) { return path.has_parent_path() ? path.parent_path() : Path("."); }

Path part_of(const Path& folder) {
  Path part = folder;
  part += ".part";
  return part;
}

void empty_out(const Path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error == std::errc::not_a_directory)
    throw Error("{}: cannot be made, since what stands above it is a file. Name another place.",
                folder.string());
  if (error) throw Error("{}: cannot be removed: {}", folder.string(), error.message());
}

void rename_folder(const Path& from, const Path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    throw Error("{}: cannot be renamed to {}: {}", from.string(), to.string(),
                std::strerror(errno));
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
  if (error) throw Error("{}: cannot be created: {}", folder.string(), error.message());
  sync_folder(above);
}

void put_folder(const Path& part, const Path& place) {
  const bool replaces = ::access(place.c_str(), F_OK) == 0;
  if (!replaces) {
    rename_folder(part, place);
    sync_folder(parent_of(place));
    return;
  }
  if (::renameat2(AT_FDCWD, part.c_str(), AT_FDCWD, place.c_str(), RENAME_EXCHANGE) != 0) {
    // Some network file systems cannot exchange two names in one step. Two renames leave a moment
    // without `place`, but both folders are whole under their other names.
    if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP)
      throw Error("{}: cannot be exchanged with {}: {}", part.string(), place.string(),
                  std::strerror(errno));
    Path old = place;
    old += ".old.part";
    empty_out(old);
    rename_folder(place, old);
    rename_folder(part, place);
    sync_folder(parent_of(place));
    empty_out(old);
    return;
  }
  sync_folder(parent_of(place));
  empty_out(part);
}

void remove_folder(const Path& folder) {
  Path part = folder;
  if (folder.extension() != ".part") {
    part = part_of(folder);
    empty_out(part);
    rename_folder(folder, part);
    sync_folder(parent_of(folder));
  }
  empty_out(part);
}

}  // namespace tessera
