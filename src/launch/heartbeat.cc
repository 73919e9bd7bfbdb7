// The rank's side of the heartbeat protocol (message.h).
//
// A thread sends beats and listens for pulses. It uses TCP and never MPI, so it works while MPI
// blocks or fails. The training thread publishes its activity through a lock-free slot (say()),
// which costs it almost no time. If the monitor is silent for `patience_s`, the host is
// disconnected and the rank ends itself: the monitor may already be starting a replacement
// elsewhere.
#include "launch/heartbeat.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <utility>

#include "base/error.h"

namespace tessera::launch {
namespace {

// Blocks all signals while the heartbeat's thread is created. It inherits the mask, so signals are
// delivered to the training thread.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

// How long a rank that ends waits for the acknowledgement of its last message.
constexpr std::chrono::seconds kLastWords(1);

}  // namespace

Heartbeat::Heartbeat(HeartbeatOptions options) : options_(std::move(options)) {
  connect();
  HeartbeatMessage hello = options_.hello;
  hello.kind = MessageKind::kHello;
  hello.token = options_.monitor.token;
  hello.clock_s = options_.wall_s();
  activity_.write(0, "startup", false, options_.now_s());
  post(hello);
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { run(); });
}

Heartbeat::~Heartbeat() {
  over_ = true;
  if (thread_.joinable()) thread_.join();
}

void Heartbeat::connect() {
  const double began = options_.now_s();
  // The addresses are tried in turn until `connecting_s` has passed.
  std::string tried;
  do {
    tried.clear();
    for (const std::string& address : options_.monitor.addresses) {
      std::string why;
      socket_ = connect_to(address, options_.monitor.port, 2, why);
      if (socket_.open()) return;
      tried += fmt::format("{}{} ({})", tried.empty() ? "" : ", ", address, why);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  } while (options_.now_s() - began < options_.connecting_s);
  throw Error(
      "rank {} on {} cannot reach `tessera launch` at port {} of {}. Open the ports between these "
      "hosts, or pass `launch` an address that the ranks can reach with --address",
      options_.hello.rank, options_.hello.host, options_.monitor.port, tried);
}

void Heartbeat::say(int64_t step, std::string_view text, bool waits) noexcept {
  if (!thread_.joinable()) return;
  // A repeated report, as a long wait makes, keeps its start time.
  const size_t what = std::hash<std::string_view>()(text) + step * 2 + (waits ? 1 : 0);
  if (what == std::exchange(said_, what)) return;
  activity_.write(step, text, waits, options_.now_s());
}

void Heartbeat::facts(const std::string& config) {
  if (!thread_.joinable()) return;
  HeartbeatMessage message;
  message.kind = MessageKind::kFacts;
  message.text = config;
  post(message);
}

bool Heartbeat::fail(const std::string& error, int code) {
  HeartbeatMessage message;
  message.kind = MessageKind::kError;
  message.code = code;
  message.text = error;
  return post_last(message);
}

bool Heartbeat::leave() {
  HeartbeatMessage message;
  message.kind = MessageKind::kBye;
  return post_last(message);
}

// The training thread posts events, and the heartbeat's thread posts beats; the mutex keeps their
// bytes in the socket from mixing.
void Heartbeat::post(const HeartbeatMessage& message) {
  const std::lock_guard lock(mutex_);
  to_send_ += encode(message);
  if (!send_some(socket_, to_send_)) gone_ = true;
}

bool Heartbeat::post_last(const HeartbeatMessage& message) {
  if (!thread_.joinable()) return false;
  beat();  // the final activity of the rank
  post(message);
  std::unique_lock lock(mutex_);
  last_words_ = true;
  // Waits for the acknowledgement: a process that exits at once may lose data that is still in the
  // socket, and the monitor would report a rank that died without a message.
  changed_.wait_for(lock, kLastWords, [this] { return heard_ || gone_; });
  return heard_;
}

void Heartbeat::beat() {
  const Activity activity = activity_.read();
  HeartbeatMessage message;
  message.kind = MessageKind::kHeartbeat;
  message.step = activity.step;
  message.text = activity.text;
  message.waits = activity.waits;
  message.since_s = std::max(0.0, options_.now_s() - activity.since_s);
  message.resident_bytes = options_.resident_bytes ? options_.resident_bytes() : 0;
  const std::lock_guard lock(mutex_);
  // If the last beat has not been sent completely, this one is skipped: the next one replaces it.
  if (to_send_.empty()) to_send_ = encode(message);
  if (!send_some(socket_, to_send_)) gone_ = true;
}

void Heartbeat::run() {
  double last_s = options_.now_s(), beaten_s = last_s - options_.period_s;
  uint64_t beaten_turn = 0;
  while (!over_) {
    pollfd wait{socket_.get(), POLLIN, 0};
    ::poll(&wait, 1, static_cast<int>(options_.period_s * 1000 / 5));
    const double now_s = options_.now_s();
    // Silence is counted only while this thread runs: after the process was suspended, what the
    // monitor sent meanwhile is still unread.
    silence_s_ += std::min(now_s - last_s, options_.period_s);
    last_s = now_s;
    if (!listen_once()) return;
    // Beats are more frequent while the activity changes, so that a failure is reported at the
    // right op.
    const double pause_s =
        activity_.turn() == beaten_turn ? options_.period_s : options_.period_s / 5;
    if (now_s - beaten_s < pause_s) continue;
    beaten_s = now_s;
    beaten_turn = activity_.turn();
    beat();
  }
}

// kStop asks for a save and an end, which the training thread does at the end of its step. kAck
// acknowledges the last message.
void Heartbeat::obey(MessageKind kind) {
  if (kind == MessageKind::kStop) asked_to_stop_ = true;
  if (kind != MessageKind::kAck) return;
  const std::lock_guard lock(mutex_);
  heard_ = true;
  changed_.notify_all();
}

bool Heartbeat::listen_once() {
  std::string bytes, line;
  const Received received = receive(socket_, bytes);
  // Any bytes show that the monitor is alive.
  if (received == Received::kBytes) silence_s_ = 0;
  lines_.append(bytes);
  try {
    while (lines_.take(line)) {
      const MessageKind kind = decode(line).kind;
      if (kind == MessageKind::kEnd) return end("");
      obey(kind);
    }
  } catch (const Error& e) {
    return end(fmt::format("cannot parse a message of `tessera launch`: {}", e.what()));
  }
  if (received == Received::kClosed)
    return end("`tessera launch`, which monitors this run, is gone");
  if (silence_s_ > options_.patience_s)
    return end(fmt::format(
        "no message from `tessera launch` for {:.0f} s: this host is cut off from it", silence_s_));
  return true;
}

bool Heartbeat::end(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    gone_ = true;
    changed_.notify_all();
    // The rank is leaving anyway, and its exit code should be its own.
    if (last_words_ && !why.empty()) return false;
  }
  options_.end_process(why);
  return false;
}

}  // namespace tessera::launch
