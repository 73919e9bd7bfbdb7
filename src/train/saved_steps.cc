// Bookkeeping of saves. A save counts as started while it is written, so that the same step is not
// saved twice; if it fails, the last complete checkpoint counts again.
#include "train/saved_steps.h"

#include <algorithm>
#include <utility>

namespace tessera::train {

void SavedSteps::complete(int64_t step) {
  last_ = step;
  saved_.push_back(step);
}

void SavedSteps::forget() {
  started_ = last_ = -1;
  saved_.clear();
}

std::string SavedSteps::path_before(const Path& folder, int64_t step) const {
  std::vector<int64_t> steps = saved_;
  steps.push_back(started_from_);
  std::sort(steps.rbegin(), steps.rend());
  for (const int64_t s : steps) {
    const Path path = folder / std::to_string(s);
    std::error_code error;
    if (s >= 0 && s < step && std::filesystem::exists(path, error)) return path.string();
  }
  return "";
}

void SaveFailure::set(std::string why, bool is_lasting, double retry_at_s) {
  why_ = std::move(why);
  lasting_ = is_lasting;
  retry_at_s_ = retry_at_s;
}

void SaveFailure::forget() {
  why_.clear();
  lasting_ = false;
}

bool SaveFailure::is_news() { return std::exchange(reported_, why_) != why_; }

}  // namespace tessera::train
