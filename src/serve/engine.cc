// One loop: start what arrived in free slots, drop what was abandoned or took too long, and make a
// step of the batch (continuous batching: a text joins and leaves between two steps, so short texts
// do not wait for long ones).
//
// Only this thread uses the decoder, so the model needs no lock. The mutex guards the queue and the
// counters and is not held during a step, so submit() never waits for the model. Events go through
// a TextChannel per request, whose push() does not block: a slow client delays only its own thread.
// Texts are started in the order of arrival, and a request is admitted as a whole or not at all,
// because a client cannot use half of its choices.
#include "serve/engine.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "eval/text_stream.h"

namespace tessera::serve {
namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

void TextChannel::push(TextEvent event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  changed_.notify_one();
}

std::vector<TextEvent> TextChannel::take(std::chrono::milliseconds wait) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, wait, [&] { return !events_.empty(); });
  return std::exchange(events_, {});
}

Engine::Engine(eval::BatchDecoder& decoder, const data::Tokenizer& tokenizer, int64_t vocabulary,
               const EngineOptions& options)
    : tokenizer_(tokenizer),
      options_(options),
      batch_(decoder, vocabulary),
      running_(static_cast<size_t>(decoder.slots())),
      thread_([this] { run(); }) {}

Engine::~Engine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  arrived_.notify_all();
  thread_.join();
}

Engine::Admission Engine::submit(std::vector<TextJob> jobs,
                                 const std::shared_ptr<TextChannel>& channel) {
  if (draining_) return Admission::kDraining;
  const auto seconds = std::chrono::duration<double>(options_.timeout_s);
  const auto deadline = Clock::now() + std::chrono::duration_cast<Clock::duration>(seconds);
  const std::lock_guard lock(mutex_);
  const auto count = std::ssize(jobs);
  // Texts that find a free slot do not wait, so they do not count against the queue.
  const int64_t room = std::ssize(running_) - counts_.active + options_.queue;
  if (std::ssize(queue_) + count > room) {
    counts_.refused += count;
    return Admission::kFull;
  }
  counts_.requests += count;
  for (int64_t i = 0; i < count; ++i) queue_.push_back({std::move(jobs[i]), i, channel, deadline});
  arrived_.notify_all();
  return Admission::kAccepted;
}

EngineCounts Engine::counts() const {
  const std::lock_guard lock(mutex_);
  EngineCounts c = counts_;
  c.waiting = std::ssize(queue_);
  return c;
}

// Begins a text in a free slot.
void Engine::begin(Waiting w) {
  auto stream = std::make_shared<eval::TextStream>(tokenizer_, w.job.request.prompt, w.job.stops);
  // The text of the prompt has the names of its special tokens; the stream finds where each token
  // begins in it.
  auto prompt = std::make_shared<eval::TextStream>(tokenizer_, std::span<const int32_t>(),
                                                   std::vector<std::string>(), true);
  auto ended = std::make_shared<bool>(false), timed_out = std::make_shared<bool>(false);
  eval::TextRequest& r = w.job.request;
  r.each = [channel = w.channel, choice = w.choice, stream, prompt,
            added = w.job.added](const eval::NewToken& t) {
    if (t.in_prompt && t.index < added) return true;
    TextEvent e{.choice = choice, .token = t};
    if (t.in_prompt)
      prompt->add(t.token);
    else
      e.text = stream->add(t.token);
    e.offset = (t.in_prompt ? *prompt : *stream).offset();
    channel->push(std::move(e));
    return !stream->stopped();
  };
  r.end = [channel = w.channel, choice = w.choice, stream, ended, timed_out](eval::Ending how) {
    *ended = true;
    channel->push(
        {.choice = choice, .text = stream->finish(), .ending = how, .timed_out = *timed_out});
  };
  const int64_t slot = batch_.add(std::move(r));
  if (!*ended) running_[slot] = Running{w.channel, w.deadline, ended, timed_out};
}

// Frees the slots of texts that have ended, are not read any more, or took too long.
void Engine::drop_abandoned() {
  const Clock::time_point now = Clock::now();
  for (int64_t slot = 0; slot < std::ssize(running_); ++slot) {
    std::optional<Running>& r = running_[slot];
    const bool cancelled = r && (abandoned_ || r->channel->cancelled());
    if (r && !*r->ended && (cancelled || now > r->deadline)) {
      *r->timed_out = !cancelled;
      const std::lock_guard lock(mutex_);
      ++(*r->timed_out ? counts_.timed_out : counts_.cancelled);
      batch_.cancel(slot);
    }
    if (r && *r->ended) r.reset();
  }
}

// Drops texts that wait in the queue, under the same conditions. REQUIRES: mutex_ is held.
void Engine::drop_waiting() {
  const Clock::time_point now = Clock::now();
  std::erase_if(queue_, [&](const Waiting& w) {
    const bool cancelled = abandoned_ || w.channel->cancelled();
    if (!cancelled && now <= w.deadline) return false;
    ++(cancelled ? counts_.cancelled : counts_.timed_out);
    w.channel->push(
        {.choice = w.choice, .ending = eval::Ending::kCancelled, .timed_out = !cancelled});
    return true;
  });
}

void Engine::run() {
  while (true) {
    drop_abandoned();
    std::vector<Waiting> taken;
    {
      std::unique_lock lock(mutex_);
      counts_.active = batch_.active();
      counts_.batch = batch_.counts();
      if (counts_.active == 0) arrived_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (stopping_) break;
      drop_waiting();
      while (!queue_.empty() && std::ssize(taken) + counts_.active < std::ssize(running_)) {
        taken.push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
      counts_.active += std::ssize(taken);
    }
    for (Waiting& w : taken) begin(std::move(w));
    batch_.step();
  }
  for (int64_t slot = 0; slot < std::ssize(running_); ++slot) batch_.cancel(slot);
  const std::lock_guard lock(mutex_);
  for (const Waiting& w : queue_)
    w.channel->push({.choice = w.choice, .ending = eval::Ending::kCancelled});
  queue_.clear();
}

}  // namespace tessera::serve
