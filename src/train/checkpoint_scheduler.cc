// Runs the saves of a run. The thread of a save does not communicate: the ranks agree in
// all-reduces between steps on whether all of them have written, and then rank 0 publishes the
// checkpoint.
#include "train/checkpoint_scheduler.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "base/count.h"
#include "base/error.h"
#include "checkpoint/hf_folder.h"
#include "comm/agree.h"

namespace tessera::train {
namespace {

constexpr double kRetryPause_s = 30;

// Frees space on a full disk: removes the oldest checkpoint that the rules do not keep permanently,
// but never the last one. Returns its path, or an empty path if none was removed.
Path give_up_oldest(const Path& folder, std::optional<checkpoint::KeepRule> rule) {
  if (!rule || rule->keep <= 0) return {};
  rule->saved.pop_back();  // the save that failed
  try {
    // An earlier call may have removed some, so fewer than `keep` may be left.
    const int64_t there = std::ssize(checkpoint::names_in(folder).finished);
    for (rule->keep = std::min(rule->keep, there) - 1; rule->keep > 0; --rule->keep)
      if (const std::vector<Path> removed = checkpoint::prune(folder, *rule); !removed.empty())
        return removed.front();
  } catch (const Error&) {  // the save is retried in any case
  }
  return {};
}

// Removes what this process left in a directory that was renamed: the reserve, and a save that
// failed because of the new name.
void remove_remains(const Path& folder) {
  checkpoint::remove_old_reserves(folder);
  try {
    checkpoint::remove_own_unfinished(folder);
  } catch (const Error&) {  // the next save matters more
  }
}

}  // namespace

std::string CheckpointScheduler::last_path() const {
  return last() < 0 ? "" : (options_.folder / std::to_string(last())).string();
}

bool CheckpointScheduler::due(int64_t step) const {
  const config::CheckpointSection& c = options_.rules;
  const auto& at = c.at_steps;
  return (c.every_steps > 0 && step % c.every_steps == 0) ||
         (c.keep_every_steps > 0 && step % c.keep_every_steps == 0) ||
         std::find(at.begin(), at.end(), step) != at.end() || passes_tokens(step);
}

// Returns true if the step is the first one that reaches a multiple of keep_every_tokens.
bool CheckpointScheduler::passes_tokens(int64_t step) const {
  const int64_t every = options_.rules.keep_every_tokens;
  return every > 0 && options_.tokens_after(step) / every > options_.tokens_after(step - 1) / every;
}

void CheckpointScheduler::reserve(int64_t bytes) {
  comm::World& world = *options_.world;
  if (world.rank() == 0) checkpoint::remove_old_reserves(options_.folder);
  world.barrier();
  if (!options_.rules.reserve) return;
  reserve_.emplace(options_.folder, world.rank(), bytes);
  take_reserve();
}

// Checkpoints in the lost directory no longer count as saved.
void CheckpointScheduler::move_to(Path folder) {
  CHECK(!saving_, "a save is under way");
  reserve_.reset();
  options_.folder = std::move(folder);
  options_.before_visible = nullptr;
  if (options_.world->rank() == 0) remove_remains(options_.folder);
  steps_.forget();
  failure_.forget();
}

void CheckpointScheduler::take_reserve() {
  if (!reserve_) return;
  const std::string failed = reserve_->take();
  if (failed.empty() || std::exchange(reserve_told_, true)) return;
  options_.warn(fmt::format(
      "{}: cannot reserve space for one more checkpoint: {}. A save may fail if the disk fills up. "
      "Free disk space, or set checkpoint.reserve=false.",
      options_.folder.string(), failed));
}

// Assembles the request for the thread of a save. Collective calls are passed as functions, since
// only the training thread may communicate.
checkpoint::SaveRequest CheckpointScheduler::request(checkpoint::CheckpointHeader header,
                                                     std::vector<checkpoint::StateTensor> tensors,
                                                     bool prunes) {
  comm::World& world = *options_.world;
  const config::CheckpointSection& c = options_.rules;
  checkpoint::SaveRequest request;
  request.checkpoints = options_.folder;
  if (origin_) checkpoint::keep_text_rules(*origin_, header);
  request.header = std::move(header);
  request.tensors = std::move(tensors);
  request.group = {world.rank(), world.size(),
                   [&world](const std::string& own) { comm::require_no_error(world, own); },
                   [&world](std::string& text) { world.broadcast(text, 0); }};
  std::vector<int64_t> saved = steps_.saved();
  saved.push_back(request.header.step);
  if (prunes)
    request.keep = checkpoint::KeepRule{
        c.keep, c.keep_every_steps,    c.at_steps, [this](int64_t s) { return passes_tokens(s); },
        saved,  steps_.started_from(), &seen_};
  request.before_visible = options_.before_visible;
  request.make_space = [this] { return reserve_ && reserve_->release(); };
  request.now_s = options_.now_s;
  return request;
}

// Opening the directory may fail on a single rank, so all ranks agree on whether the save
// continues.
void CheckpointScheduler::start(checkpoint::CheckpointHeader header,
                                std::vector<checkpoint::StateTensor> tensors, bool prunes) {
  if (is_saved(header.step)) return;
  options_.waits("saving the checkpoint");
  const double began = options_.now_s();
  finish();
  steps_.start(header.step);
  published_ = false;
  std::string failed;
  try {
    saving_.emplace(request(std::move(header), std::move(tensors), prunes));
  } catch (const Error& e) {
    failed = e.what();
  }
  double any = failed.empty() ? 0 : 1;
  options_.world->all_reduce({&any, 1}, comm::Reduction::kMax);
  paused_s_ = options_.now_s() - began;
  if (any > 0) fail(failed);
}

void CheckpointScheduler::before_update() {
  if (!saving_) return;
  const double began = options_.now_s();
  saving_->wait_until_read();
  paused_s_ += options_.now_s() - began;
}

// Ends the save on every rank with the message of the first rank whose state is not finite.
void CheckpointScheduler::refuse_non_finite() {
  std::string message;
  for (const std::string& own : options_.world->all_gather(saving_->non_finite()))
    if (message.empty()) message = own;
  abandon();
  steps_.give_up();
  throw NumericError("{}", message);
}

// One step of the agreement between all ranks. The save advances when all ranks have written, and
// ends when rank 0 has published.
void CheckpointScheduler::advance() {
  const checkpoint::SaveState state = saving_->state();
  std::array<double, 5> any = {state == checkpoint::SaveState::kFailed ? 1.0 : 0,
                               state == checkpoint::SaveState::kWriting ? 1.0 : 0,
                               state != checkpoint::SaveState::kOver ? 1.0 : 0, paused_s_,
                               saving_->non_finite().empty() ? 0.0 : 1.0};
  options_.world->all_reduce(any, comm::Reduction::kMax);
  if (any[4] > 0) refuse_non_finite();
  if (any[0] > 0) {
    std::string own;
    try {
      if (state == checkpoint::SaveState::kFailed) saving_->wait();
    } catch (const std::exception& e) {
      own = e.what();
    }
    return fail(own);
  }
  if (any[1] > 0) return;
  if (any[2] == 0) {
    paused_s_ = any[3];
    return settle();
  }
  if (std::exchange(published_, true)) return;
  saving_->publish();
}

void CheckpointScheduler::between_steps() {
  if (saving_) advance();
}

void CheckpointScheduler::settle() {
  saving_->wait();
  steps_.complete(saving_->step());
  failure_.overcome();
  longest_save_s_ = std::max(longest_save_s_, saving_->seconds());
  options_.say(fmt::format("saved {} in {:.2f} s, training paused {:.2f} s", format_count(last()),
                           saving_->seconds(), paused_s_));
  if (const std::string& w = saving_->warning(); !w.empty() && warned_.insert(w).second)
    options_.warn(w);
  saving_.reset();
  take_reserve();
}

// Handles a failed save. All ranks call it if any of them failed; `own` is the reason on this rank,
// or empty.
void CheckpointScheduler::fail(const std::string& own) {
  const bool own_lasts = saving_ && saving_->failure_is_lasting();
  const bool own_full = saving_ && saving_->disk_was_full();
  const std::optional<checkpoint::KeepRule> rule = saving_ ? saving_->keep() : std::nullopt;
  comm::World& world = *options_.world;
  std::string why;
  const std::vector<std::string> all = world.all_gather(own);
  for (size_t rank = 0; rank < all.size() && why.empty(); ++rank)
    if (!all[rank].empty())
      why = all.size() == 1 ? all[rank] : fmt::format("rank {}: {}", rank, all[rank]);
  abandon();  // from here on no thread of the save uses the reserve
  std::array<double, 3> any = {own_lasts ? 1.0 : 0, reserve_ && reserve_->release() ? 1.0 : 0,
                               own_full ? 1.0 : 0};
  world.all_reduce(any, comm::Reduction::kMax);
  double has_space = any[1];
  if (any[1] == 0 && any[2] > 0 && world.rank() == 0)
    if (const Path removed = give_up_oldest(options_.folder, rule); !removed.empty()) {
      has_space = 1;
      options_.warn(fmt::format("the disk is full: {} was removed to save a newer checkpoint",
                                removed.string()));
    }
  world.all_reduce({&has_space, 1}, comm::Reduction::kMax);
  steps_.give_up();
  failure_.set(std::move(why), any[0] > 0, options_.now_s() + (has_space > 0 ? 0 : kRetryPause_s));
  if (failure_.is_news()) options_.warn(failure());
}

// Rank 0 removes the directory, so the other ranks close their files first.
void CheckpointScheduler::abandon() {
  comm::World& world = *options_.world;
  if (world.rank() != 0) saving_.reset();
  world.barrier();
  saving_.reset();
  world.barrier();
}

bool CheckpointScheduler::retry_due() const {
  return !saving_ && failure_.retry_due(options_.now_s());
}

// Waits in the two stages of advance(): until all ranks have written, then until rank 0 has
// published.
void CheckpointScheduler::finish() {
  while (saving_) {
    const double began = options_.now_s();
    if (published_)
      saving_->wait_until_over();
    else
      saving_->wait_until_written();
    paused_s_ += options_.now_s() - began;
    advance();
  }
}

// Repeats the last save of a run until it succeeds. All ranks decide together, by an all-reduce
// after each attempt, because a save is collective.
void save_last_step(CheckpointScheduler& saves, int64_t step, const std::function<void()>& start,
                    comm::World& world, const StopSignals& signals, double retry_s,
                    const std::function<double()>& now_s) {
  const double until_s = now_s() + retry_s;
  const int requests = signals.requests();
  const auto ends = [&] {
    return now_s() >= until_s || signals.requests() > requests || saves.failure_is_lasting();
  };
  for (;;) {
    start();
    saves.finish();
    if (saves.last() == step) return;
    std::array<double, 2> any = {ends() ? 1.0 : 0, saves.retry_due() ? 1.0 : 0};
    world.all_reduce(any, comm::Reduction::kMax);
    // Disk space was freed, so the next attempt need not wait.
    if (any[1] > 0) continue;
    if (any[0] > 0) throw comm::SharedError(saves.failure());
    // Sleeps in short pieces, so that a signal ends the wait.
    constexpr int kPieces = 10;
    for (int i = 0; i < kPieces && !ends(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1000 / kPieces));
  }
}

}  // namespace tessera::train
