// The run directory: creation, locking, and removal after a start that failed.
//
// Only directories that did not exist when this process started are removed, by rmdir(), which
// fails if a directory is not empty. Files of other processes are therefore never deleted.
#include "train/run_folder.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"
#include "comm/agree.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLog = "log.txt";
constexpr const char* kLock = "run.lock";

// Throws Error if the path exists and is not a regular file. A link may lead to a file that is not
// the run's, and opening a FIFO would block.
void require_regular(const Path& file) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(file, error);
  if (!fs::exists(status) || fs::is_regular_file(status)) return;
  const char* kind = fs::is_symlink(status)     ? "link"
                     : fs::is_directory(status) ? "folder"
                     : fs::is_fifo(status)      ? "FIFO (a named pipe)"
                                                : "device or a socket";
  throw Error("{}: is a {}, expected a regular file that the run can append to. Move it away.",
              file.string(), kind);
}

// Creates a directory next to the given one, with a suffix to its name.
Path new_directory_next_to(const Path& directory) {
  const Path whole = directory.has_filename() ? directory : directory.parent_path();
  for (int n = 1;; ++n) {
    Path place = whole;
    place += fmt::format(".process-{}{}", ::getpid(), n == 1 ? "" : fmt::format("-{}", n));
    std::error_code error;
    if (fs::create_directory(place, error)) return place;
    if (error) throw FileError(place, "cannot be created", error.value());
  }
}

bool holds_only_the_log(const Path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().filename() != kLog && entry.path().filename() != kLock) return false;
  return !error;
}

}  // namespace

void make_run_directory(const Path& directory) {
  std::error_code failed;
  fs::create_directories(directory, failed);
  if (failed)
    throw Error("run.directory = {}: the directory cannot be created: {}. Choose another path.",
                directory.string(), failed.message());
  for (const char* name : {kLog, "metrics.jsonl"}) require_regular(directory / name);
}

bool may_replace(const Path& path, std::string_view mark) {
  std::error_code error;
  const fs::file_status status = fs::symlink_status(path, error);
  if (!fs::exists(status)) return true;
  return fs::is_regular_file(status) && read_file(path).starts_with(mark);
}

std::unique_ptr<OwnerLock> lock_run_directory(const Path& directory,
                                              const std::function<void(const std::string&)>& say) {
  OwnerLockOptions o;
  o.subject = fmt::format("run.directory = {}", directory.string());
  o.advice =
      "Only one run at a time may use a run directory. Wait until that run has ended, stop it, or "
      "set run.directory (or run.name) to another directory.";
  o.say = say;
  for (int tries = 0;; ++tries) {
    make_run_directory(directory);
    try {
      return std::make_unique<OwnerLock>(directory / kLock, o);
    } catch (const FileError& error) {
      // Another start that failed has just removed the directory that it had created.
      if (error.code() != ENOENT || tries == 10) throw;
    }
  }
}

void RunOwner::require() const {
  if (lock_ != nullptr) lock_->require_owned();
}

bool RunOwner::owns() const {
  try {
    require();
    return true;
  } catch (const LostOwnership&) {
    return false;
  }
}

bool RunOwner::owns_open_files() const { return owns() || lock_->renamed_folder().has_value(); }

Path RunOwner::place_after_loss(comm::World& world) const {
  std::string place;
  comm::on_all(world, [&] {
    if (lock_ == nullptr || lock_->lost().empty()) return;
    const std::optional<Path> renamed = lock_->renamed_folder();
    place = (renamed ? *renamed : new_directory_next_to(directory_)).string();
  });
  world.broadcast(place, 0);
  return place;
}

RunFolder::RunFolder(const Path& folder) : folder_(folder) {
  std::error_code error;
  // Collects the missing directories, innermost first, which is the order of their removal.
  for (Path p = fs::absolute(folder, error).lexically_normal(); !p.empty() && !error;
       p = p.parent_path()) {
    if (!p.has_filename()) p = p.parent_path();  // the path ended in a slash
    if (fs::exists(p, error) || error) break;
    absent_.push_back(p);
  }
}

void RunFolder::failed(std::string_view error, bool writes_log) const noexcept {
  try {
    std::error_code ignored;
    if (!absent_.empty() && holds_only_the_log(folder_)) {
      fs::remove(folder_ / kLog, ignored);
      fs::remove(folder_ / kLock, ignored);
      for (const Path& p : absent_) ::rmdir(p.c_str());  // removes only empty directories
    } else if (writes_log && fs::is_regular_file(fs::symlink_status(folder_ / kLog, ignored))) {
      Log log(LogTerminal::kOff);
      log.open(folder_ / kLog);
      log.error("{}", error);
    }
  } catch (const std::exception&) {  // such as a full disk
  }
}

void RunFolder::not_locked() const noexcept {
  for (const Path& p : absent_) ::rmdir(p.c_str());  // removes only empty directories
}

namespace {

namespace fs = std::filesystem;

bool may_be_replaced(const Path& path, const std::string& given) {
  std::error_code error;
  return !fs::equivalent(path, given, error) && may_replace(path, kRunFileMark);
}

}  // namespace

Path write_run_file(const config::RunConfig& config, const std::string& version) {
  const Path directory = config.run.directory;
  Path path = directory / "run.yaml";
  if (!may_be_replaced(path, config.source)) path = directory / "run.resolved.yaml";
  write_file(path, fmt::format("{}{}.\n{}", kRunFileMark, version, to_yaml(to_tree(config))));
  return path;
}

}  // namespace tessera::train
