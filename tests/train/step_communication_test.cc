// What is told of all ranks, from what each of them measured.
#include "train/step_communication.h"

#include <gtest/gtest.h>

#include <thread>

namespace tessera::train {
namespace {

TEST(TrafficAxis, OfEveryKindOfGroup) {
  const auto axis = [](std::string_view group) {
    return kTrafficAxes[traffic_axis(*group_named(group))];
  };
  EXPECT_EQ(axis("shard"), "data");
  EXPECT_EQ(axis("replica+shard"), "data");
  EXPECT_EQ(axis("tensor"), "tensor");
  EXPECT_EQ(axis("tensor_kv+tensor"), "tensor");
  EXPECT_EQ(axis("pipeline"), "pipeline");
  EXPECT_EQ(axis("stages:0,3"), "pipeline");
  EXPECT_EQ(axis("replica+tensor"), "several");
  EXPECT_EQ(axis("replica+shard+tensor"), "several");
  EXPECT_EQ(axis("world"), "several");
}

// The reductions of a world whose other ranks are known: each adds, or compares with, what they
// would have given.
class Others : public comm::World {
 public:
  Others(int64_t rank, std::vector<std::pair<runtime::CommunicationTime, double>> steps)
      : rank_(rank), steps_(std::move(steps)) {}
  int64_t rank() const override { return rank_; }
  int64_t size() const override { return static_cast<int64_t>(steps_.size()); }
  const std::string& host(int64_t) const override { return host_; }
  std::unique_ptr<comm::Communicator> group(std::span<const int64_t>) override { return nullptr; }
  void barrier() override {}
  std::vector<std::string> all_gather(const std::string& own) override { return {own}; }
  void broadcast(std::string&, int64_t) override {}
  void all_reduce(std::span<double> x, comm::Reduction r) override {
    given_.emplace_back(x.begin(), x.end());
    if (answers_.empty()) return;
    const std::vector<double>& other = answers_[given_.size() - 1];
    for (size_t i = 0; i < x.size(); ++i)
      x[i] = r == comm::Reduction::kSum ? x[i] + other[i] : std::max(x[i], other[i]);
  }
  [[noreturn]] void abort(int code) override { std::exit(code); }

  std::vector<std::vector<double>> given_, answers_;

 private:
  int64_t rank_;
  std::vector<std::pair<runtime::CommunicationTime, double>> steps_;
  std::string host_ = "here";
};

TEST(GatherCommunication, BringsTwoRanksTogether) {
  const GroupRef tensor = GroupRef::along({AxisKind::kTensor});
  const GroupRef shard = GroupRef::along({AxisKind::kShard});
  const GroupRef pipeline = GroupRef::along({AxisKind::kPipeline});
  const runtime::CommunicationTime first{1.0, 0.25, {{tensor, 0.25}}, {{tensor, 100}, {shard, 7}}};
  const runtime::CommunicationTime second{
      0.5,
      0.75,
      {{pipeline, 0.5}, {shard, 0.25}},
      {{tensor, 50}, {GroupRef::of_stages({0, 1}), 3}, {GroupRef::world(), 9}}};
  Others alone(1, {{first, 2.0}, {second, 2.0}});
  gather_communication(alone, second, 2.0);
  Others world(0, {{first, 2.0}, {second, 2.0}});
  world.answers_ = alone.given_;
  const StepCommunication all = gather_communication(world, first, 2.0);
  EXPECT_DOUBLE_EQ(all.hidden_s, 0.375);      // (0.75 + 0) / 2
  EXPECT_DOUBLE_EQ(all.exposed_s, 0.5);       // (0.25 + 0.75) / 2
  EXPECT_DOUBLE_EQ(all.bubble_share, 0.125);  // (0 + 0.5 / 2) / 2
  EXPECT_EQ(all.bytes_sent, (std::array<int64_t, 4>{7, 150, 3, 9}));
  EXPECT_EQ(all.slowest_rank, 0);
  EXPECT_NEAR(all.slowest_over_mean, 1.75 / 1.5, 1e-6);
}

}  // namespace
}  // namespace tessera::train
