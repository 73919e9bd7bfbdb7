// Moves later checkpoints, metrics and event files of a run to a separate directory. Copies are
// written before anything is moved, and checkpoints are moved by rename, so a crash at any point
// loses nothing.
#include "train/load_start.h"

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <vector>

#include "base/error.h"
#include "base/tree.h"
#include "checkpoint/durable.h"
#include "checkpoint/folders.h"

namespace tessera::train {
namespace {

namespace fs = std::filesystem;

std::string utc(double wall_s) {
  const auto seconds = static_cast<std::time_t>(wall_s);
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts);
  return text;
}

// Creates a new folder in `parent`, named `name` or `name`-2, `name`-3, ….
Path new_folder(const Path& parent, const std::string& name) {
  checkpoint::make_folder(parent);
  Path folder = parent / name;
  std::error_code error;
  for (int n = 2; !fs::create_directory(folder, error); ++n) {
    if (error) throw FileError(folder, "cannot be created", error.value());
    folder = parent / fmt::format("{}-{}", name, n);
  }
  checkpoint::sync_folder(parent);
  return folder;
}

bool is_after(std::string_view line, int64_t step) {
  try {
    const Tree tree = parse_json(line, "metrics.jsonl");
    const Tree* member = tree.find("step");
    const auto* n = member ? std::get_if<int64_t>(&member->value) : nullptr;
    return n == nullptr || *n > step;
  } catch (const Error&) {
    return true;  // incomplete or damaged lines are set aside, too
  }
}

std::string lines_after(const Path& metrics, int64_t step) {
  std::error_code error;
  if (!fs::exists(metrics, error)) return "";
  const std::string text = read_file(metrics);
  std::string lines;
  for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    const std::string_view line(text.data() + begin, end - begin);
    if (!line.empty() && is_after(line, step)) lines.append(line).push_back('\n');
  }
  return lines;
}

std::vector<Path> event_files(const Path& run) {
  std::vector<Path> files;
  std::error_code error;
  for (fs::directory_iterator at(run / "tensorboard", error), end; !error && at != end;
       at.increment(error))
    if (at->path().filename().string().starts_with("events.out.tfevents.")) files.push_back(*at);
  return files;
}

class Mover {
 public:
  explicit Mover(const SetAside& request)
      : r_(request),
        // If the start is not a checkpoint of this run, no record stays: -1 is before every step.
        last_(request.keeps_line ? request.step : -1),
        name_(fmt::format("{}-after-step-{}", utc(request.wall_s), request.step)) {}

  std::string move() {
    const Path metrics = r_.run / "metrics.jsonl";
    const checkpoint::CheckpointNames names = checkpoint::names_in(r_.run / "checkpoints");
    std::vector<checkpoint::CheckpointNames::Entry> later;
    for (const auto* list : {&names.finished, &names.damaged})
      for (const auto& e : *list)
        if (e.step > last_) later.push_back(e);
    const std::string lines = lines_after(metrics, last_);
    if (later.empty() && lines.empty()) return "";
    folder_ = new_folder(r_.run / "set_aside", name_);
    if (!lines.empty()) write_file(folder_ / "metrics.jsonl", lines);
    const int64_t events = move_events();
    // From the newest to the oldest: a crash in between leaves a run without its latest steps.
    std::sort(later.begin(), later.end(), [](auto& a, auto& b) { return a.step > b.step; });
    for (const auto& e : later) move_checkpoint(e.path);
    if (!lines.empty() && !r_.keeps_line) fs::remove(metrics);  // else MetricsRecorder does
    const auto count = std::count(lines.begin(), lines.end(), '\n');
    return fmt::format(
        "set aside {} of this run after step {}: {} checkpoint{}, {} line{} of metrics.jsonl, {} "
        "event file{}, now in {}{}",
        r_.keeps_line ? "the records" : "all records", r_.step, later.size(),
        later.size() == 1 ? "" : "s", count, count == 1 ? "" : "s", events, events == 1 ? "" : "s",
        folder_.string(), elsewhere_.empty() ? "" : " and " + elsewhere_.string());
  }

 private:
  int64_t move_events() const {
    const std::vector<Path> files = event_files(r_.run);
    if (files.empty()) return 0;
    const Path to = new_folder(folder_, "tensorboard");
    for (const Path& file : files) {
      if (r_.keeps_line)
        fs::copy_file(file, to / file.filename());
      else
        fs::rename(file, to / file.filename());
    }
    return std::ssize(files);
  }

  void move_checkpoint(const Path& checkpoint) {
    if (elsewhere_.empty()) {
      const Path to = folder_ / "checkpoints";
      checkpoint::make_folder(to);
      try {
        return checkpoint::move_folder(checkpoint, to / checkpoint.filename());
      } catch (const FileError& error) {
        // EXDEV: checkpoints/ is on another file system, to which rename() cannot move; they are
        // set aside there.
        if (error.code() != EXDEV) throw;
        fs::remove(to);
        elsewhere_ = new_folder(r_.run / "checkpoints" / "set_aside", name_);
      }
    }
    checkpoint::move_folder(checkpoint, elsewhere_ / checkpoint.filename());
  }

  const SetAside& r_;
  int64_t last_;  // the last step whose records stay
  std::string name_;
  Path folder_, elsewhere_;
};

}  // namespace

std::string set_aside(const SetAside& request) { return Mover(request).move(); }

}  // namespace tessera::train
