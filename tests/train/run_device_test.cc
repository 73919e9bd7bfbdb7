// The memory and the transport of a run on devices, checked without a device.
#include "train/run_device.h"
#include "compile/compile.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "comm/world.h"
#include "ir/communicators.h"
#include "ir/rule.h"
#include "plan/hardware.h"
#include "runtime/shared_device.h"
#include "tests/train/tiny_run.h"

namespace tessera::train {
namespace {

std::vector<Program> stages_of(const config::RunConfig& c) {
  return compile::compile_stages(config::compile_request(c, compile::ProgramKind::kTrain),
                                 Target());
}

// Eight ranks of a host, each of which sees one device, have eight devices.
TEST(Devices, D_B1_AreComparedByTheirNames) {
  EXPECT_EQ(runtime::ranks_that_share(std::vector<std::string>{"a 1", "a 2", "b 3", "b 4"}),
            std::nullopt);
  EXPECT_EQ(runtime::ranks_that_share(std::vector<std::string>{"a 1", "a 2", "b 3", "a 2"}),
            std::pair(int64_t{1}, int64_t{3}));
  EXPECT_EQ(runtime::ranks_that_share(std::vector<std::string>{"a 1", "b 1"}), std::nullopt);
  EXPECT_EQ(runtime::ranks_that_share(std::vector<std::string>{"a 1"}), std::nullopt);
}

config::RunConfig pipelined(int64_t stages, int64_t chunks) {
  config::RunConfig c = tiny(model::Family::kLlama);
  c.model.layers = stages * chunks;
  c.batch.global = 2 * stages;
  c.batch.micro = 1;
  c.layout.pipeline = stages;
  c.layout.interleave = chunks;
  if (chunks > 1) c.layout.pipeline_schedule = compile::PipelineSchedule::kInterleaved1F1B;
  return c;
}

// The senders and receivers of a communicator, as "stage queue".
using Ends = std::map<CommunicatorName, std::set<std::pair<int64_t, Queue>>>;

Ends ends_of(const std::vector<Program>& stages, MessageCommunicators messages) {
  Ends ends;
  for (const Program& p : stages)
    for (const Segment& s : p.segments)
      for (const Op& op : s.ops)
        if (is_message(op))
          ends[communicator_of(op, s.queue, p, messages)].insert({p.stage, s.queue});
  return ends;
}

// If a communicator runs one operation at a time, none has more than one sender and one receiver.
TEST(Communicators, D_B8_EachDirectionOfAPairHasItsOwn) {
  for (const int64_t stages : {2, 3, 4, 5})
    for (const int64_t chunks : {1, 2}) {
      SCOPED_TRACE(fmt::format("{} stages of {} chunks", stages, chunks));
      const std::vector<Program> programs = stages_of(pipelined(stages, chunks));
      const Ends ends = ends_of(programs, MessageCommunicators::kPairs);
      EXPECT_EQ(std::ssize(ends), 2 * (chunks > 1 ? stages : stages - 1));
      for (const auto& [name, both] : ends) {
        ASSERT_EQ(both.size(), 2u) << to_string(name.over) << " from " << name.from;
        const auto [one, other] = std::pair(*both.begin(), *both.rbegin());
        EXPECT_NE(one.first, other.first) << to_string(name.over) << " from " << name.from;
        const auto sends = [](Queue q) {
          return q == Queue::kSendForward || q == Queue::kSendBackward;
        };
        EXPECT_NE(sends(one.second), sends(other.second))
            << to_string(name.over) << " from " << name.from;
        for (const auto& [stage, queue] : both) {
          const Mesh& mesh = programs[0].mesh;
          const std::vector<int64_t> group = group_of(mesh, name.over, stage);
          EXPECT_EQ(group.size(), 2u);
          EXPECT_NE(std::find(group.begin(), group.end(), stage), group.end());
        }
      }
      EXPECT_EQ(ends_of(programs, MessageCommunicators::kShared).size(), 2u);
    }
}

// Ranks that share several communicators make them in one order.
TEST(Communicators, D_B8_AreMadeInOneOrder) {
  const std::vector<Program> programs = stages_of(pipelined(3, 2));
  for (const Program& p : programs) {
    const auto all = communicators_of({&p}, MessageCommunicators::kPairs);
    EXPECT_TRUE(std::is_sorted(all.begin(), all.end(),
                               [](const auto& a, const auto& b) { return a.name < b.name; }));
    EXPECT_EQ(communicator_count(p), std::count_if(all.begin(), all.end(), [&](const auto& use) {
                return group_size(p.mesh, use.name.over) > 1;
              }));
  }
}

// The plan and the run count the same memory in addition to the arena.
TEST(Allowances, D_B6_ClusterFilesAgreeWithTheRun) {
  config::RunConfig c = pipelined(4, 1);
  c.layout.tensor = 2;
  c.layout.data = 2;
  const Program p = stages_of(c)[1];
  ASSERT_GT(communicator_count(p), 3);
  for (const char* name : {"a100-40gb", "a100-80gb", "h100", "h200"}) {
    const plan::Hardware h = plan::load_hardware(Path(TESSERA_RECIPES) / ".." / "clusters" /
                                                 fmt::format("{}.yaml", name));
    for (const int64_t n : {int64_t{0}, int64_t{1}, communicator_count(p)})
      EXPECT_EQ(plan::outside_bytes(h.device, n), outside_bytes(config::Device::kCuda, n))
          << name << ' ' << n;
  }
  EXPECT_GE(kCommunicatorBytes, comm::kNcclStagingBytes);
  const compile::MemoryPlan m = compile::memory_plan(p);
  EXPECT_EQ(m.communicators, communicator_count(p));
  RunDevice device;
  EXPECT_EQ(device.outside_bytes(m), kOutsideBytes);
  device.gpu.emplace();
  EXPECT_EQ(device.need(m), m.arena + outside_bytes(config::Device::kCuda, m.communicators));
}

// A run that fits without but not with its communicators is rejected before it starts.
TEST(Allowances, D_B6_CommunicatorsAreCounted) {
  config::RunConfig c = pipelined(2, 1);
  c.run.device = config::Device::kCuda;
  const Program p = stages_of(c)[0];
  const int64_t need = p.bytes + outside_bytes(config::Device::kCuda, communicator_count(p));
  EXPECT_NO_THROW(require_memory(c, p, need, Target()));
  EXPECT_THROW(require_memory(c, p, need - 1, Target()), Error);
  EXPECT_GT(need, p.bytes + kGpuOutsideBytes + kNcclBytes);
}

}  // namespace
}  // namespace tessera::train
