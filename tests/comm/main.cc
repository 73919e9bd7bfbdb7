// Every rank runs every test; a test that fails on one rank fails the run.
#include <gtest/gtest.h>

#include "tests/comm/ranks.h"

namespace tessera::testing {
namespace {
comm::World* all_ranks = nullptr;
}
comm::World& ranks() { return *all_ranks; }
}  // namespace tessera::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  const auto world = tessera::comm::mpi_world();
  tessera::testing::all_ranks = world.get();
  return RUN_ALL_TESTS();
}
