// The rank's side of the heartbeats. A thread that never uses MPI reports several times per second
// to the monitor (`tessera launch`, rank_monitor.h) that the rank is alive and what it is doing. A
// rank that is suspended, disconnected or dead stops reporting; a rank in a long op does not.
//
// clang-format off
//   Heartbeat heartbeat(options);              // Heartbeat(): no monitor, the calls have no effect
//   heartbeat.say(12, "forward of layer 3");   // at each call
//   if (heartbeat.asked_to_stop()) …           // finish the step, save, exit
//   heartbeat.fail(error.what());              // before an exit with an error
//   heartbeat.leave();                         // before a normal exit
// clang-format on
//
// A rank that receives nothing from the monitor ends itself: its host is disconnected, or the run
// has ended.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "launch/activity.h"
#include "launch/message.h"
#include "launch/monitor_endpoint.h"
#include "launch/socket.h"

namespace tessera::launch {

struct HeartbeatOptions {
  MonitorEndpoint monitor;
  HeartbeatMessage hello;                   // identity: rank, ranks, host, pid, version, memory
  std::function<double()> now_s, wall_s;    // a steady clock; seconds since 1970
  std::function<int64_t()> resident_bytes;  // resident memory of this process
  // Ends the process at once. It is called on the heartbeat thread. `why` is empty if the monitor
  // requested the end.
  std::function<void(const std::string& why)> end_process;
  double period_s = 0.5;     // time between beats; a fifth of it while the activity changes
  double patience_s = 5;     // timeout for messages from the monitor
  double connecting_s = 15;  // time limit for connecting
};

class Heartbeat {
 public:
  Heartbeat() = default;
  // Connects to the monitor. Throws Error, with the addresses tried, if that fails.
  explicit Heartbeat(HeartbeatOptions options);
  ~Heartbeat();  // without leave() or fail() before it, the monitor reports that the rank died
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // Sets the activity of this rank until the next call; `waits` means that it waits for other
  // ranks. It uses no lock, allocates nothing and sends nothing. Call it from the training thread
  // only.
  void say(int64_t step, std::string_view text, bool waits = false) noexcept;
  // Sends the configuration (JSON) of this rank; the monitor compares those of all ranks.
  void facts(const std::string& config);
  // Report an error, with the exit code of this rank, or a normal exit. Both wait up to a second
  // for the acknowledgement of the monitor and return true if it arrived: then the monitor prints
  // the error.
  bool fail(const std::string& error, int code = 1);
  bool leave();
  bool asked_to_stop() const { return asked_to_stop_.load(std::memory_order_relaxed); }

 private:
  void connect();
  void run();
  bool listen_once();  // returns false if the thread must stop
  void obey(MessageKind kind);
  bool end(const std::string& why);  // returns false
  void post(const HeartbeatMessage& message);
  bool post_last(const HeartbeatMessage& message);
  void beat();

  HeartbeatOptions options_;
  Descriptor socket_;
  ActivitySlot activity_;
  size_t said_ = 0;  // hash of the last activity that say() wrote
  std::atomic<bool> asked_to_stop_{false}, over_{false};
  std::mutex mutex_;  // guards the next three lines
  std::condition_variable changed_;
  std::string to_send_;
  bool heard_ = false, gone_ = false, last_words_ = false;
  // Only the heartbeat thread uses these two.
  double silence_s_ = 0;  // time since the last message of the monitor
  LineBuffer lines_;
  std::thread thread_;
};

}  // namespace tessera::launch
