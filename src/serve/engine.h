// The thread that generates: moves requests from a bounded queue into the slots of a TextBatch, and
// passes the new text to the threads that answer.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "data/tokenizer.h"
#include "eval/batch_decoder.h"
#include "eval/text_batch.h"

namespace tessera::serve {

struct EngineOptions {
  int64_t queue = 256;     // texts that wait for a slot; more are rejected
  double timeout_s = 600;  // time from the arrival of a request to the end of its texts
};

// A change of one of the texts of a request.
struct TextEvent {
  int64_t choice = 0;
  std::string text = {};                     // final text, as TextStream returns it
  std::optional<eval::NewToken> token = {};  // the token that was added
  int64_t offset = 0;  // characters before it, in the text of the prompt or of the output
  std::optional<eval::Ending> ending = {};  // the text is complete
  bool timed_out = false;                   // with an ending: because of EngineOptions::timeout_s
};

// Carries the events of the texts of one request to the thread that answers it.
class TextChannel {
 public:
  void push(TextEvent event);
  // Returns the events since the last call, after at most `wait` if there are none.
  std::vector<TextEvent> take(std::chrono::milliseconds wait);
  // Asks the engine to end the texts, because the client has left. Their slots become free.
  void cancel() { cancelled_ = true; }
  bool cancelled() const { return cancelled_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<TextEvent> events_;
  std::atomic<bool> cancelled_ = false;
};

// A text to generate. `request` has no callbacks; the engine sets them.
struct TextJob {
  eval::TextRequest request;
  std::vector<std::string> stops;  // texts that end it
  int64_t added = 0;  // tokens that were added in front of the prompt's text; they get no event
};

struct EngineCounts {
  eval::BatchCounts batch;
  int64_t requests = 0, refused = 0, cancelled = 0, timed_out = 0;  // texts
  int64_t waiting = 0, active = 0;
};

class Engine {
 public:
  // The decoder and the tokenizer must outlive the engine.
  Engine(eval::BatchDecoder& decoder, const data::Tokenizer& tokenizer, int64_t vocabulary,
         const EngineOptions& options);
  ~Engine();  // cancels what is left

  enum class Admission : uint8_t { kAccepted, kFull, kDraining };
  // Adds all texts of a request to the queue, or none. Their choices are numbered from 0.
  // REQUIRES: eval::validate() passes for each.
  Admission submit(std::vector<TextJob> jobs, const std::shared_ptr<TextChannel>& channel);
  // Rejects new requests; those that were accepted are completed.
  void drain() { draining_ = true; }
  bool draining() const { return draining_; }
  // Ends all texts, with Ending::kCancelled, and those that may still arrive.
  void abandon() {
    abandoned_ = true;
    arrived_.notify_all();
  }
  EngineCounts counts() const;

 private:
  struct Waiting {
    TextJob job;
    int64_t choice;
    std::shared_ptr<TextChannel> channel;
    std::chrono::steady_clock::time_point deadline;
  };
  struct Running {
    std::shared_ptr<TextChannel> channel;
    std::chrono::steady_clock::time_point deadline;
    std::shared_ptr<bool> ended;
    std::shared_ptr<bool> timed_out;
  };

  void run();
  void begin(Waiting w);
  void drop_abandoned();
  void drop_waiting();

  const data::Tokenizer& tokenizer_;
  EngineOptions options_;
  eval::TextBatch batch_;
  std::vector<std::optional<Running>> running_;  // per slot; used by the thread only
  mutable std::mutex mutex_;                     // guards queue_, counts_ and stopping_
  std::condition_variable arrived_;
  std::deque<Waiting> queue_;
  EngineCounts counts_;
  bool stopping_ = false;
  std::atomic<bool> draining_ = false, abandoned_ = false;
  std::thread thread_;
};

}  // namespace tessera::serve
