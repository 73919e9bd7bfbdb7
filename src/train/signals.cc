#include "train/signals.h"

#include <unistd.h>

#include <array>
#include <csignal>
#include <ctime>

#include "base/error.h"

namespace tessera {
namespace {

constexpr std::array kCaught = {SIGINT,  SIGTERM,   SIGHUP,  SIGXCPU, SIGUSR1, SIGUSR2,
                                SIGALRM, SIGVTALRM, SIGPROF, SIGIO,   SIGPWR};
// Of these, those from here on may have a handler of a profiler or a library, which stays.
constexpr size_t kOthers = 6;

volatile std::sig_atomic_t caught_signal = 0;
volatile std::sig_atomic_t request_count = 0;
timespec last_request;  // of the handler alone, in which the other signal waits
SecondRequest at_second;
bool installed = false;
std::array<struct sigaction, kCaught.size()> before;

double seconds_between(const timespec& from, const timespec& to) {
  return static_cast<double>(to.tv_sec - from.tv_sec) +
         1e-9 * static_cast<double>(to.tv_nsec - from.tv_nsec);
}

extern "C" void handle_stop(int number) {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  if (request_count > 0 && seconds_between(last_request, now) < 1) return;
  if (request_count > 0 && number == SIGXCPU) return;  // it comes each second of processor time
  if (request_count > 0 && at_second == SecondRequest::kEndsProcess) ::_exit(128 + number);
  if (request_count == 0) caught_signal = number;
  last_request = now;
  request_count = request_count + 1;
}

}  // namespace

StopSignals::StopSignals(SecondRequest second) {
  CHECK(!installed, "the stop signals are caught already");
  installed = true;
  caught_signal = 0;
  request_count = 0;
  at_second = second;
  struct sigaction action = {};
  action.sa_handler = handle_stop;
  action.sa_flags = SA_RESTART;  // a signal must not fail the write that it interrupts
  sigemptyset(&action.sa_mask);
  for (const int s : kCaught) sigaddset(&action.sa_mask, s);
  for (size_t i = 0; i < kCaught.size(); ++i) {
    sigaction(kCaught[i], nullptr, &before[i]);
    const auto handler = before[i].sa_handler;
    if (i < kOthers ? handler != SIG_IGN : handler == SIG_DFL)
      sigaction(kCaught[i], &action, nullptr);
  }
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < kCaught.size(); ++i) sigaction(kCaught[i], &before[i], nullptr);
  installed = false;
}

int StopSignals::requests() const { return request_count; }
int StopSignals::signal() const { return caught_signal; }

}  // namespace tessera
