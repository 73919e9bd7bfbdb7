#include "train/signals.h"

#include <unistd.h>

#include <array>
#include <csignal>

#include "base/error.h"

namespace tessera {
namespace {

constexpr std::array<int, 2> kCaught = {SIGINT, SIGTERM};

volatile std::sig_atomic_t caught_signal = 0;
bool installed = false;
std::array<struct sigaction, kCaught.size()> before;

extern "C" void handle_stop(int number) {
  if (caught_signal != 0) ::_exit(128 + number);
  caught_signal = number;
}

}  // namespace

StopSignals::StopSignals() {
  CHECK(!installed, "the stop signals are caught already");
  installed = true;
  caught_signal = 0;
  struct sigaction action = {};
  action.sa_handler = handle_stop;
  action.sa_flags = SA_RESTART;  // a signal must not fail the write that it interrupts
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kCaught.size(); ++i) sigaction(kCaught[i], &action, &before[i]);
}

StopSignals::~StopSignals() {
  for (size_t i = 0; i < kCaught.size(); ++i) sigaction(kCaught[i], &before[i], nullptr);
  installed = false;
}

bool StopSignals::requested() const { return caught_signal != 0; }
int StopSignals::signal() const { return caught_signal; }

}  // namespace tessera
