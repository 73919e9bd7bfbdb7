#include "train/run_folder.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/error.h"
#include "base/log.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLog = "log.txt";
constexpr const char* kLock = "run.lock";

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
    throw Error("run.directory = {}: the folder cannot be created: {}. Choose another path.",
                directory.string(), failed.message());
}

std::unique_ptr<OwnerLock> lock_run_directory(const Path& directory,
                                              const std::function<void(const std::string&)>& say) {
  OwnerLockOptions o;
  o.subject = fmt::format("run.directory = {}", directory.string());
  o.advice =
      "Only one run at a time may use a run directory. Wait until that one has ended, stop it, or "
      "set run.directory (or run.name) to another one.";
  o.say = say;
  for (int tries = 0;; ++tries) {
    make_run_directory(directory);
    try {
      return std::make_unique<OwnerLock>(directory / kLock, o);
    } catch (const FileError& error) {
      // A start that failed elsewhere has just removed the directory that it had made.
      if (error.code() != ENOENT || tries == 10) throw;
    }
  }
}

RunFolder::RunFolder(const Path& folder) : folder_(folder) {
  std::error_code error;
  for (Path p = fs::absolute(folder, error).lexically_normal(); !p.empty() && !error;
       p = p.parent_path()) {
    if (!p.has_filename()) p = p.parent_path();  // it ended in a slash
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
      for (const Path& p : absent_) ::rmdir(p.c_str());  // only empty folders
    } else if (writes_log && fs::exists(folder_ / kLog, ignored)) {
      Log log(LogTerminal::kOff);
      log.open(folder_ / kLog);
      log.error("{}", error);
    }
  } catch (const std::exception&) {  // a full disk, say
  }
}

void RunFolder::not_locked() const noexcept {
  for (const Path& p : absent_) ::rmdir(p.c_str());  // only empty folders
}

}  // namespace tessera
