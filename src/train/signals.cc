// Catches signals that ask the run to stop. The handler only counts them and reads the clock, which
// is safe in a signal handler. The main thread polls the counts, which are sig_atomic_t variables,
// between steps.
#include "train/signals.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <ctime>

#include "base/error.h"

namespace tessera::train {
namespace {

// Users and batch systems send the usual ones. A profiler or a library may have installed a handler
// for the others and for real-time signals; such a handler stays.
constexpr std::array kUsual = {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGXCPU, SIGUSR1, SIGUSR2};
constexpr std::array kOthers = {SIGALRM, SIGVTALRM, SIGPROF, SIGIO, SIGPWR, SIGSTKFLT};

bool is_real_time(int number) { return number >= SIGRTMIN && number <= SIGRTMAX; }
bool is_caught(int number) {
  return std::find(kUsual.begin(), kUsual.end(), number) != kUsual.end() ||
         std::find(kOthers.begin(), kOthers.end(), number) != kOthers.end() || is_real_time(number);
}

volatile std::sig_atomic_t caught_signal = 0;
volatile std::sig_atomic_t request_count = 0;
timespec last_request;  // used only in the handler, during which other signals are blocked
SecondSignal at_second;
bool installed = false;
std::array<struct sigaction, NSIG> before;  // old handlers by signal number

double seconds_between(const timespec& from, const timespec& to) {
  return static_cast<double>(to.tv_sec - from.tv_sec) +
         1e-9 * static_cast<double>(to.tv_nsec - from.tv_nsec);
}

extern "C" void handle_stop(int number) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  // One request may arrive as several signals, for example to the process and to its process group.
  if (request_count > 0 && seconds_between(last_request, now) < 1) return;
  if (request_count > 0 && number == SIGXCPU) return;  // sent once per second of processor time
  if (request_count > 0 && at_second == SecondSignal::kEndsProcess) ::_exit(128 + number);
  if (request_count == 0) caught_signal = number;
  last_request = now;
  request_count = request_count + 1;
}

}  // namespace

StopSignals::StopSignals(SecondSignal second) {
  CHECK(!installed, "the stop signals are already caught");
  installed = true;
  caught_signal = 0;
  request_count = 0;
  at_second = second;
  struct sigaction action = {};
  action.sa_handler = handle_stop;
  action.sa_flags = SA_RESTART;  // an interrupted write must not fail
  sigemptyset(&action.sa_mask);
  // While one signal is handled the others are blocked, so the handler never interrupts itself.
  for (int s = 1; s < NSIG; ++s)
    if (is_caught(s)) sigaddset(&action.sa_mask, s);
  for (int s = 1; s < NSIG; ++s) {
    if (!is_caught(s)) continue;
    struct sigaction& old = before[s];
    sigaction(s, nullptr, &old);
    const bool usual = std::find(kUsual.begin(), kUsual.end(), s) != kUsual.end();
    // An ignored signal stays ignored (nohup, background jobs).
    if (usual ? old.sa_handler != SIG_IGN : old.sa_handler == SIG_DFL)
      sigaction(s, &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (int s = 1; s < NSIG; ++s)
    if (is_caught(s)) sigaction(s, &before[s], nullptr);
  installed = false;
}

int StopSignals::requests() const { return request_count; }
int StopSignals::signal() const { return caught_signal; }

}  // namespace tessera::train
