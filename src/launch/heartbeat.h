// A rank's side: says a few times a second, on a thread of its own that never touches MPI, that the
// rank lives and what it is doing, to the process that watches all ranks (watch.h). Being stopped,
// cut off or dead shows by silence, however long an op may take.
//
// clang-format off
//   Heartbeat heartbeat(options);              // Heartbeat(): no monitor, the calls have no effect
//   heartbeat.say(12, "forward of layer 3");   // at each call
//   if (heartbeat.asked_to_stop()) …           // finish the step, save, exit
//   heartbeat.fail(error.what());              // before an exit with an error
//   heartbeat.leave();                         // before a normal exit
// clang-format on
//
// A rank that hears nothing from the watcher ends by itself: its host is cut off, or the run is
// over.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "launch/doing.h"
#include "launch/home.h"
#include "launch/message.h"
#include "launch/socket.h"

namespace tessera::launch {

struct HeartbeatOptions {
  Home home;
  Message hello;                            // who this is: rank, ranks, host, pid, version, memory
  std::function<double()> now_s, wall_s;    // a steady clock; seconds since 1970
  std::function<int64_t()> resident_bytes;  // of this process
  // Ends the process at once; called on the heartbeat's thread. `why` is empty where the watcher
  // asked for it and so knows.
  std::function<void(const std::string& why)> end_process;
  double period_s = 0.5;  // between beats; a fifth of it while what it does changes
  double patience_s = 5;  // without a word from the watcher
  double connecting_s = 15;
};

class Heartbeat {
 public:
  Heartbeat() = default;
  // Connects. Throws Error that names the addresses tried.
  explicit Heartbeat(HeartbeatOptions options);
  ~Heartbeat();  // without leave(): the watcher sees a rank that ended without a word
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // What this rank does from now on, until something else is said; `waits`: it communicates. No
  // lock, no allocation, no message; from the training thread only.
  void say(int64_t step, std::string_view text, bool waits = false) noexcept;
  // The configuration (JSON) with which this rank runs: the watcher compares those of all.
  void facts(const std::string& config);
  // Both return when the watcher has it, after a second at most; true: it has, and tells people.
  bool fail(const std::string& error, int code = 1);  // `code`: the exit code of this rank
  bool leave();
  bool asked_to_stop() const { return asked_to_stop_.load(std::memory_order_relaxed); }

 private:
  void connect();
  void run();
  bool listen_once();  // false: the heart is to stop
  void obey(MessageKind kind);
  bool end(const std::string& why);  // false
  void post(const Message& message);
  bool post_last(const Message& message);
  void beat();

  HeartbeatOptions options_;
  Descriptor socket_;
  DoingSlot doing_;
  size_t said_ = 0;  // hash of the last message that say() sent
  std::atomic<bool> asked_to_stop_{false}, over_{false};
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::string to_send_;
  bool heard_ = false, gone_ = false, last_words_ = false;
  double silence_s_ = 0;  // of the watcher; this and the next are the thread's own
  LineBuffer lines_;
  std::thread thread_;
};

}  // namespace tessera::launch
