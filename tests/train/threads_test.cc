// run.threads holds for every kernel of a step, whatever OpenMP's own default is.
#include <omp.h>

#include <filesystem>

#include "tests/train/tiny_run.h"

namespace tessera::train {
namespace {

// Large enough that kernels over rows and over elements use more than one thread.
config::RunConfig several_grains() {
  config::RunConfig c = tiny(model::Family::kGpt2);
  c.model.hidden = 64;
  c.model.context = c.data.sequence_length = 512;
  c.model.dropout = 0.1;
  model::derive_sizes(c.model);
  return c;
}

int64_t threads_of_this_process() {
  int64_t count = 0;
  for ([[maybe_unused]] const auto& task : std::filesystem::directory_iterator("/proc/self/task"))
    ++count;
  return count;
}

// Trains two steps with a team of that size. Returns the threads that this has added.
int64_t threads_added(int threads) {
  omp_set_num_threads(4);
  const config::RunConfig c = several_grains();
  const auto world = comm::self_world();
  Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), threads),
                  INT64_MAX, *world, {});
  data::BatchSource source = batches(c);
  const int64_t before = threads_of_this_process();
  trainer.engine().touch();
  trainer.initialize();
  for (int s = 1; s <= 2; ++s) EXPECT_TRUE(trainer.step(s, 1e-3, source).finite);
  return threads_of_this_process() - before - 1;  // a step starts the thread that reads ahead
}

// In a process of its own: OpenMP keeps the threads of the largest team of a process.
class RunThreads : public testing::TestWithParam<int> {};

TEST_P(RunThreads, E7_RunThreadsHoldForEveryKernelOfAStep) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const int threads = GetParam();
  EXPECT_EXIT(
      {
        const int64_t added = threads_added(threads);
        fmt::print(stderr, "{} threads added\n", added);
        ::_exit(added == threads - 1 ? 0 : 1);
      },
      testing::ExitedWithCode(0), fmt::format("{} threads added", threads - 1));
}

INSTANTIATE_TEST_SUITE_P(Teams, RunThreads, testing::Values(1, 2));

TEST(Threads, E7_TheNumberOfThreadsDoesNotChangeTheBits) {
  const auto curve = [](int threads) {
    const config::RunConfig c = several_grains();
    const auto world = comm::self_world();
    Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), threads),
                    INT64_MAX, *world, {});
    return curve_of(trainer, c, 3);
  };
  const Curve one = curve(1);
  for (const int threads : {2, 3}) {
    const Curve more = curve(threads);
    EXPECT_EQ(one.losses, more.losses) << threads;
    EXPECT_EQ(one.norms, more.norms) << threads;
  }
}

}  // namespace
}  // namespace tessera::train
