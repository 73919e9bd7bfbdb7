// Transfers of groups that no machine here could start: what each step sends, and its sums.
#include "comm/transfer.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tessera::comm {
namespace {

// The report of a step, summed over all ranks of a large world, as rank `rank` receives it.
void expect_sum(int64_t ranks, int64_t rank) {
  std::vector<std::byte> staging(static_cast<size_t>(staging_bytes(ranks)));
  std::vector<double> report(8), sum(8);
  for (size_t i = 0; i < report.size(); ++i) report[i] = static_cast<double>(i + 1);
  const TensorView in = {report.data(), DType::kF64, {8}}, out = {sum.data(), DType::kF64, {8}};
  const Transfer t = all_reduce_transfer({rank, ranks, staging.data()}, in, out, Reduction::kSum);
  ASSERT_EQ(t.steps, 1) << ranks << " ranks";
  for (int64_t slot = 0; slot < kStepsInFlight; ++slot) {
    std::vector<PeerMessage> messages;
    t.messages({0, slot}, messages);
    ASSERT_EQ(std::ssize(messages), 2 * (ranks - 1));
    std::vector<bool> written(staging.size());
    for (const PeerMessage& m : messages) {
      if (!m.receives) continue;
      const int64_t at = m.data - staging.data();
      ASSERT_GE(at, 0);
      ASSERT_LE(at + m.bytes, std::ssize(staging));
      ASSERT_FALSE(written[static_cast<size_t>(at)]) << "two peers write to the same place";
      written[static_cast<size_t>(at)] = true;
      std::memcpy(m.data, report.data(), static_cast<size_t>(m.bytes));
    }
    t.finish({0, slot});
    for (size_t i = 0; i < sum.size(); ++i)
      EXPECT_EQ(sum[i], static_cast<double>(ranks) * static_cast<double>(i + 1));
  }
}

TEST(Transfer, F9_ReportsAreSummedOverAnyNumberOfRanks) {
  for (const int64_t ranks : {2, 3, 1000, 16'385, 16'386, 20'000, 100'000}) {
    expect_sum(ranks, 0);
    expect_sum(ranks, ranks - 1);
  }
  EXPECT_EQ(staging_bytes(16'385), kStagingBytes);  // as much as before
}

}  // namespace
}  // namespace tessera::comm
