#include "train/signals.h"

#include <gtest/gtest.h>

#include <csignal>

namespace tessera {
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

TEST(StopSignals, TheSecondSignalEndsTheProcess) {
  EXPECT_EXIT(
      {
        StopSignals signals;
        std::raise(SIGINT);
        std::raise(SIGINT);
      },
      ::testing::ExitedWithCode(128 + SIGINT), "");
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
}  // namespace tessera
