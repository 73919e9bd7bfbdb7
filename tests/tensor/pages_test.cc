#include "tensor/pages.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

// Addresses that nothing reads.
std::byte* at(int64_t address) { return reinterpret_cast<std::byte*>(address); }

using Ranges = std::vector<MemoryRange>;

TEST(WholePages, RoundsToPagesOnBothSides) {
  EXPECT_EQ(whole_pages(Ranges{{at(3 * kPageBytes + 5), 10}}),
            (Ranges{{at(3 * kPageBytes), kPageBytes}}));
  EXPECT_EQ(whole_pages(Ranges{{at(4 * kPageBytes - 1), 2}}),
            (Ranges{{at(3 * kPageBytes), 2 * kPageBytes}}));
  EXPECT_EQ(whole_pages(Ranges{{at(kPageBytes), kPageBytes}}),
            (Ranges{{at(kPageBytes), kPageBytes}}));
}

TEST(WholePages, NoPageTwice) {
  const Ranges parts = {{at(9 * kPageBytes), 100},
                        {at(2 * kPageBytes + 100), 50},
                        {at(2 * kPageBytes + 500), kPageBytes},
                        {at(4 * kPageBytes), 1},
                        {at(2 * kPageBytes), 10}};
  EXPECT_EQ(whole_pages(parts),
            (Ranges{{at(2 * kPageBytes), 3 * kPageBytes}, {at(9 * kPageBytes), kPageBytes}}));
}

TEST(WholePages, NothingOfNothing) {
  EXPECT_TRUE(whole_pages({}).empty());
  EXPECT_TRUE(whole_pages(Ranges{{nullptr, 0}, {at(77), 0}}).empty());
}

}  // namespace
}  // namespace tessera
