#include "tensor/pages.h"

#include <gtest/gtest.h>

#include "tensor/tensor.h"

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

TEST(WholeOrNone, CutsWherePagesBeginAndEnd) {
  const Ranges pages = {{at(2 * kPageBytes), 2 * kPageBytes}, {at(9 * kPageBytes), kPageBytes}};
  EXPECT_EQ(whole_or_none({at(kPageBytes + 10), 9 * kPageBytes}, pages),
            (Ranges{{at(kPageBytes + 10), kPageBytes - 10},
                    {at(2 * kPageBytes), 2 * kPageBytes},
                    {at(4 * kPageBytes), 5 * kPageBytes},
                    {at(9 * kPageBytes), kPageBytes},
                    {at(10 * kPageBytes), 10}}));
}

TEST(WholeOrNone, LeavesWhatIsInOrOut) {
  const Ranges pages = {{at(2 * kPageBytes), 2 * kPageBytes}};
  for (const MemoryRange r :
       {MemoryRange{at(2 * kPageBytes + 5), 100}, MemoryRange{at(2 * kPageBytes), 2 * kPageBytes},
        MemoryRange{at(4 * kPageBytes), 100}, MemoryRange{at(5), 100}})
    EXPECT_EQ(whole_or_none(r, pages), Ranges{r});
  EXPECT_EQ(whole_or_none({at(7), 9}, {}), (Ranges{{at(7), 9}}));
  EXPECT_TRUE(whole_or_none({at(7), 0}, pages).empty());
}

TEST(ResidentBytes, CountsTheBytesOfTouchedPages) {
  constexpr int64_t kPages = 64;
  const HostBuffer buffer("test", kPages * kPageBytes);
  std::byte* const p = buffer.data();
  if (resident_bytes({p, buffer.bytes()}) > 0) GTEST_SKIP() << "the system maps pages ahead";
  p[3 * kPageBytes + 10] = std::byte{1};
  p[7 * kPageBytes] = std::byte{1};
  const int64_t some = resident_bytes({p, buffer.bytes()});
  EXPECT_GE(some, 2 * kPageBytes);
  EXPECT_EQ(resident_bytes({p + 3 * kPageBytes + 100, 200}), 200);
  buffer.touch(1);
  EXPECT_EQ(resident_bytes({p, buffer.bytes()}), buffer.bytes());
  EXPECT_EQ(resident_bytes({p + 5, 3 * kPageBytes}), 3 * kPageBytes);
}

}  // namespace
}  // namespace tessera
