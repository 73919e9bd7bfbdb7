#include "train/signals.h"

#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <thread>

namespace tessera::train {
namespace {

TEST(StopSignals, TheFirstSignalAsks) {
  StopSignals signals;
  EXPECT_FALSE(signals.requested());
  std::raise(SIGTERM);
  EXPECT_TRUE(signals.requested());
  EXPECT_EQ(signals.signal(), SIGTERM);
}

TEST(StopSignals, ANewObjectStartsUnasked) {
  {
    StopSignals signals;
    std::raise(SIGINT);
    EXPECT_EQ(signals.signal(), SIGINT);
  }
  StopSignals signals;
  EXPECT_FALSE(signals.requested());
}

constexpr auto kApart = std::chrono::milliseconds(1100);

TEST(StopSignals, TheSecondRequestEndsTheProcess) {
  EXPECT_EXIT(
      {
        StopSignals signals;
        std::raise(SIGINT);
        std::this_thread::sleep_for(kApart);
        std::raise(SIGINT);
      },
      ::testing::ExitedWithCode(128 + SIGINT), "");
}

TEST(StopSignals, SignalsAtOnceAreOneRequest) {
  StopSignals signals;
  std::raise(SIGTERM);
  std::raise(SIGINT);
  std::raise(SIGTERM);
  EXPECT_EQ(signals.requests(), 1);
  EXPECT_EQ(signals.signal(), SIGTERM);
}

TEST(StopSignals, RequestsAreCountedWhereThatIsWanted) {
  StopSignals signals(SecondSignal::kIsCounted);
  std::raise(SIGINT);
  std::this_thread::sleep_for(kApart);
  std::raise(SIGTERM);
  EXPECT_EQ(signals.requests(), 2);
  EXPECT_EQ(signals.signal(), SIGINT);
}

TEST(StopSignals, M8_AnIgnoredSignalStaysIgnored) {
  std::signal(SIGHUP, SIG_IGN);
  {
    StopSignals signals;
    std::raise(SIGHUP);
    EXPECT_FALSE(signals.requested());
  }
  std::signal(SIGHUP, SIG_DFL);
  for (const int number : {SIGHUP, SIGQUIT, SIGXCPU, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF,
                           SIGIO, SIGPWR, SIGSTKFLT, SIGRTMIN, SIGRTMIN + 5, SIGRTMAX}) {
    StopSignals signals;
    std::raise(number);
    EXPECT_EQ(signals.signal(), number);
  }
}

extern "C" void do_nothing(int) {}

TEST(StopSignals, E4_ARealTimeSignalOfALibraryStaysItsOwn) {
  std::signal(SIGRTMIN + 1, do_nothing);
  std::signal(SIGRTMIN + 2, SIG_IGN);
  {
    StopSignals signals;
    std::raise(SIGRTMIN + 1);
    std::raise(SIGRTMIN + 2);
    EXPECT_FALSE(signals.requested());
    std::raise(SIGRTMIN + 3);
    EXPECT_EQ(signals.signal(), SIGRTMIN + 3);
  }
  EXPECT_EQ(std::signal(SIGRTMIN + 1, SIG_DFL), do_nothing);
  std::signal(SIGRTMIN + 2, SIG_DFL);
}

TEST(StopSignals, TheOldHandlersComeBack) {
  EXPECT_EXIT(
      {
        { StopSignals signals; }
        std::raise(SIGTERM);
      },
      ::testing::KilledBySignal(SIGTERM), "");
}

}  // namespace
}  // namespace tessera::train
