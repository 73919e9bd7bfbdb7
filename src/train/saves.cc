#include "train/saves.h"

#include <algorithm>
#include <array>

#include "base/count.h"
#include "checkpoint/hf_folder.h"

namespace tessera {

std::string Saves::last_path() const {
  return last_ < 0 ? "" : (options_.folder / std::to_string(last_)).string();
}

bool Saves::due(int64_t step) const {
  const CheckpointSection& c = options_.rules;
  const auto& at = c.at_steps;
  return (c.every_steps > 0 && step % c.every_steps == 0) ||
         (c.keep_every_steps > 0 && step % c.keep_every_steps == 0) ||
         std::find(at.begin(), at.end(), step) != at.end() || passes_tokens(step);
}

// Whether the step is the first past a multiple of keep_every_tokens.
bool Saves::passes_tokens(int64_t step) const {
  const int64_t every = options_.rules.keep_every_tokens;
  return every > 0 && options_.tokens_after(step) / every > options_.tokens_after(step - 1) / every;
}

void Saves::start(CheckpointHeader header, std::vector<StateTensor> tensors, bool prunes) {
  if (started_ == header.step) return;
  options_.waits("saving the checkpoint");
  const double began = options_.now_s();
  finish();
  started_ = header.step;
  World& world = *options_.world;
  const CheckpointSection& c = options_.rules;
  SaveRequest request;
  request.checkpoints = options_.folder;
  if (origin_) keep_text_rules(*origin_, header);
  request.header = std::move(header);
  request.tensors = std::move(tensors);
  request.group = {static_cast<int>(world.rank()), static_cast<int>(world.size()),
                   [&world] { world.barrier(); },
                   [&world](std::string& text) { world.broadcast(text, 0); }};
  saved_.push_back(started_);
  if (prunes)
    request.keep = KeepRule{
        c.keep, c.keep_every_steps, c.at_steps, [this](int64_t s) { return passes_tokens(s); },
        saved_, started_from_,      &seen_};
  request.before_visible = options_.before_visible;
  request.now_s = options_.now_s;
  saving_.emplace(std::move(request));
  agreed_ = world.size() == 1;
  paused_s_ = options_.now_s() - began;
}

void Saves::before_update() {
  if (!saving_) return;
  const double began = options_.now_s();
  saving_->wait_until_read();
  paused_s_ += options_.now_s() - began;
}

// Ends the save on every rank with the message of the first rank whose state is not finite.
void Saves::refuse_non_finite() {
  std::string message;
  for (const std::string& said : options_.world->all_gather(saving_->non_finite()))
    if (message.empty()) message = said;
  options_.world->barrier();
  saving_.reset();
  options_.world->barrier();
  throw NumericError("{}", message);
}

// Collective. A failure of another rank is that one's to tell: it ends this process too.
bool Saves::all_written() {
  const SaveState state = saving_->state();
  const bool failed = state == SaveState::kFailed;
  std::array<double, 4> most = {state == SaveState::kWriting ? 1.0 : 0, failed ? 1.0 : 0, paused_s_,
                                saving_->non_finite().empty() ? 0.0 : 1.0};
  options_.world->all_reduce(most, Reduction::kMax);
  if (most[3] > 0) refuse_non_finite();
  if (most[1] > 0) {
    if (!failed) saving_.reset();  // rank 0 removes what there is
    options_.world->barrier();
    if (failed) saving_->wait();
    options_.world->barrier();
  }
  if (most[0] > 0) return false;
  paused_s_ = most[2];
  saving_->publish();
  return true;
}

void Saves::between_steps() {
  if (!saving_) return;
  if (!agreed_) agreed_ = all_written();
  const SaveState state = saving_->state();
  if (state == SaveState::kOver || state == SaveState::kFailed) settle();
}

void Saves::settle() {
  const double began = options_.now_s();
  try {
    saving_->wait();
  } catch (...) {
    saving_.reset();
    started_ = last_;  // this step may be saved again
    throw;
  }
  paused_s_ += options_.now_s() - began;
  last_ = saving_->step();
  options_.say(fmt::format("saved {} in {:.2f} s, training paused {:.2f} s", format_count(last_),
                           saving_->seconds(), paused_s_));
  saving_.reset();
}

void Saves::finish() {
  if (!saving_) return;
  const double began = options_.now_s();
  if (!agreed_) {
    saving_->wait_until_written();
    paused_s_ += options_.now_s() - began;
    agreed_ = all_written();
  }
  settle();
}

}  // namespace tessera
