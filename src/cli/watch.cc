// tessera watch RUN [--every SECONDS] [--once]
//
// Shows a run while another process trains it. On a terminal a picture is rewritten in place;
// elsewhere there is one line for each look at which the run has new steps. Only files are read, so
// the run may be on another host. Ends when the run has done all its steps.
#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "base/log.h"
#include "cli/arguments.h"
#include "cli/show.h"
#include "cli/verbs.h"
#include "report/follow.h"
#include "report/screen.h"
#include "train/progress.h"

namespace tessera::cli {
namespace {

report::ScreenSize terminal_size() {
  report::ScreenSize size;
  winsize window{};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 && window.ws_row > 1)
    size = {window.ws_col, window.ws_row - 1};
  return size;
}

// "running, last line 3 s ago"
std::string state_of(const Path& directory) {
  // After a kill, the lock remains: the age of the last line shows that nothing happens.
  std::string state = std::filesystem::exists(directory / "run.lock") ? "running" : "not running";
  std::error_code absent;
  const auto written = std::filesystem::last_write_time(directory / "metrics.jsonl", absent);
  if (absent || std::filesystem::file_size(directory / "metrics.jsonl", absent) == 0) return state;
  const std::chrono::duration<double> age = std::filesystem::file_time_type::clock::now() - written;
  return fmt::format("{}, last line {} ago", state, train::format_duration(age.count()));
}

train::ProgressState progress_of(const report::RunData& run) {
  const report::Steps& steps = run.steps;
  const auto last = [&](report::Column c) { return steps.values[c].back(); };
  train::ProgressState p;
  p.step = steps.step.back();
  p.steps = report::integer_setting(run, "schedule.steps").value_or(p.step);
  p.loss = last(report::Column::kLoss);
  p.grad_norm = last(report::Column::kGradNorm);
  p.learning_rate = last(report::Column::kLearningRate);
  p.tokens_per_s = last(report::Column::kTokensPerS);
  p.unit = report::units_of(run).rate;
  p.matrix_rate_share = last(report::Column::kFlopsShare);
  p.exposed_share = last(report::Column::kExposedS) / last(report::Column::kStepS);
  return p;
}

bool is_stopped_early(const report::RunData& run) {
  return !run.log.events.empty() &&
         run.log.events.back().text.starts_with("stopped by schedule.stop");
}

bool is_done(const report::RunData& run) {
  if (is_stopped_early(run)) return !std::filesystem::exists(run.directory / "run.lock");
  const auto planned = report::integer_setting(run, "schedule.steps");
  return planned && !run.steps.step.empty() && run.steps.step.back() >= *planned &&
         !std::filesystem::exists(run.directory / "run.lock");
}

class Watch {
 public:
  explicit Watch(bool terminal) : terminal_(terminal) {}

  void show(const report::RunData& run) {
    const int64_t step = run.steps.step.empty() ? 0 : run.steps.step.back();
    warn(report::order_warning(run));
    if (terminal_) {
      redraw(report::screen(run, state_of(run.directory), report::rank_lines(run.directory),
                            terminal_size()));
    } else if (step == 0 && shown_step_ < 0) {
      show_now(fmt::format("no steps yet ({})\n", state_of(run.directory)));
    } else if (step != shown_step_ && step > 0) {
      show_now(train::format_progress(progress_of(run), 0) + "\n");
    }
    shown_step_ = step;
  }

 private:
  // Prints the first warning, above the next picture.
  void warn(const std::string& warning) {
    if (warned_ || warning.empty()) return;
    warned_ = true;
    print_to(stderr, fmt::format("tessera: warning: {}\n", printable(warning)));
    shown_lines_ = 0;
  }

  // Moves the cursor up over the lines that are shown, and erases them.
  void redraw(const std::vector<std::string>& lines) {
    std::string text = shown_lines_ > 0 ? fmt::format("\x1b[{}A\r\x1b[J", shown_lines_) : "";
    for (const std::string& line : lines) text += line + "\n";
    show_now(text);
    shown_lines_ = std::ssize(lines);
  }

  bool terminal_, warned_ = false;
  int64_t shown_lines_ = 0, shown_step_ = -1;  // -1: nothing was shown
};

}  // namespace

int verb_watch(Args args) {
  std::string directory;
  double every_s = 2;
  bool once = false;
  Arguments a("watch",
              "Show a run while it trains: loss curve, rates, ranks. Ctrl-C ends the "
              "display, not the run.",
              "tessera watch runs/first");
  a.required(directory, "RUN", "run directory");
  a.option(every_s, "--every", "SECONDS", "time between looks at the run");
  a.flag(once, "--once", "show it once and exit");
  if (!a.parse(args)) return 0;
  if (!(every_s >= 0.1 && every_s <= 86400))
    throw UsageError("watch: --every is {}, expected 0.1 to 86,400 seconds", every_s);
  report::RunFollower follower(directory);
  Watch watch(isatty(STDOUT_FILENO) != 0);
  while (true) {
    watch.show(follower.run());
    if (once || is_done(follower.run()) || reader_is_gone(stdout)) return 0;
    std::this_thread::sleep_for(std::chrono::duration<double>(every_s));
    follower.update();
  }
}

}  // namespace tessera::cli
