#include "cli/eval_progress.h"

#include <fmt/format.h>

#include "base/count.h"
#include "base/real.h"
#include "train/progress.h"

namespace tessera::cli {

void EvalProgress::show(int64_t done, int64_t all) {
  if (last_ == 0 || done < last_) {
    first_ = done;
    began_s_ = status_.seconds();
  }
  last_ = done;
  if (all > 0 && done >= all) {
    last_ = 0;
    return status_.erase();
  }
  if (all == 0 || !status_.is_due()) return;
  const double share = ratio(done, all);
  std::string line = fmt::format("{} {:.0f} %  {} of {}", train::format_bar(share, 20), 100 * share,
                                 format_count(done), format_count(all));
  if (done > first_)
    line += "  left " + train::format_duration((status_.seconds() - began_s_) *
                                               ratio(all - done, done - first_));
  status_.show(line);
}

}  // namespace tessera::cli
