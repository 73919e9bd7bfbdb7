#include "train/run_folder.h"

#include <filesystem>

#include "base/error.h"
#include "base/log.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLog = "log.txt";

bool holds_only_the_log(const Path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().filename() != kLog) return false;
  return !error;
}

}  // namespace

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
      for (const Path& p : absent_) fs::remove(p, ignored);  // only what is empty
    } else if (writes_log && fs::exists(folder_ / kLog, ignored)) {
      Log log(LogTerminal::kNone);
      log.open(folder_ / kLog);
      log.error("{}", error);
    }
  } catch (const std::exception&) {  // a full disk, say
  }
}

}  // namespace tessera
