#include "launch/command.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "launch/monitor_endpoint.h"

namespace tessera::launch {
namespace {

TEST(StartCommand, Mpirun) {
  StartOptions o;
  o.ranks = 8;
  o.hosts = {{"n01", 4}, {"n02", 4}};
  o.program = {"tessera", "train", "run.yaml", "run.name=a b"};
  EXPECT_EQ(quote_words(start_command(o)),
            "mpirun -n 8 --tag-output --bind-to none --map-by slot -x TESSERA_LAUNCH --host "
            "n01:4,n02:4 tessera train run.yaml 'run.name=a b'");
  o.hosts.clear();
  o.root = true;
  o.more = {"--mca", "btl", "tcp,self"};
  EXPECT_EQ(quote_words(start_command(o)),
            "mpirun -n 8 --tag-output --bind-to none --map-by slot -x TESSERA_LAUNCH "
            "--allow-run-as-root --oversubscribe --mca btl tcp,self tessera train run.yaml "
            "'run.name=a b'");
}

TEST(StartCommand, Srun) {
  StartOptions o;
  o.launcher = Launcher::kSrun;
  o.ranks = 2;
  o.left_out = {"n03", "n07"};
  o.program = {"tessera", "train", "run.yaml"};
  EXPECT_EQ(quote_words(start_command(o)),
            "srun --ntasks 2 --mpi pmix --distribution block --label --unbuffered "
            "--kill-on-bad-exit=1 --cpu-bind=none --exclude=n03,n07 tessera train run.yaml");
}

TEST(Words, SplitAndQuoteUndoEachOther) {
  const std::vector<std::string> words = {"a", "b c", "it's", "", "x=\"y\"", "$HOME"};
  EXPECT_EQ(split_words(quote_words(words)), words);
  EXPECT_EQ(split_words("  --mca btl  'tcp,self' "),
            (std::vector<std::string>{"--mca", "btl", "tcp,self"}));
  EXPECT_THROW(split_words("'open"), Error);
}

TEST(Relay, LinesOfRanks) {
  EXPECT_EQ(parse_line(Launcher::kMpirun, "[1,5]<stderr>:out of memory").rank, 5);
  EXPECT_EQ(parse_line(Launcher::kMpirun, "[1,5]<stdout>:a: b").text, "a: b");
  EXPECT_EQ(parse_line(Launcher::kMpirun, "[n01:1234] *** Process").rank, -1);
  EXPECT_EQ(parse_line(Launcher::kMpirun, "").rank, -1);
  EXPECT_EQ(parse_line(Launcher::kSrun, " 5: step 1").rank, 5);
  EXPECT_EQ(parse_line(Launcher::kSrun, " 5: step 1").text, "step 1");
  EXPECT_EQ(parse_line(Launcher::kSrun, "srun: error: n02").rank, -1);
}

TEST(Relay, Endings) {
  const RankLine mpi = parse_ending(
      Launcher::kMpirun,
      "mpirun noticed that process rank 1 with PID 0 on node n02 exited on signal 9 (Killed).");
  EXPECT_EQ(mpi.rank, 1);
  EXPECT_EQ(mpi.text, "signal 9, Killed");
  const RankLine slurm = parse_ending(Launcher::kSrun, "srun: error: n02: task 1: Out Of Memory");
  EXPECT_EQ(slurm.rank, 1);
  EXPECT_EQ(slurm.text, "Out Of Memory");
  EXPECT_EQ(parse_ending(Launcher::kSrun, "srun: error: task").rank, -1);
}

TEST(Relay, L3_LongAndHugeTextsOfTheStarter) {
  const std::string host(300'000, 'n');
  EXPECT_EQ(parse_ending(Launcher::kSrun, "srun: error: " + host + ": task 3: Killed").rank, 3);
  EXPECT_EQ(parse_ending(Launcher::kSrun, "srun: error: " + host).rank, -1);
  EXPECT_EQ(parse_ending(Launcher::kSrun, "srun: error: n1: task 99999999999999999999: x").rank,
            -1);
  EXPECT_EQ(
      parse_ending(Launcher::kMpirun, "process rank 99999999999999999999 exited on signal 9 (K)")
          .rank,
      -1);
  EXPECT_EQ(
      parse_ending(Launcher::kMpirun, "process rank 2 " + host + " exited on signal 9 (Killed)")
          .text,
      "signal 9, Killed");
}

TEST(MonitorEndpoint, RoundTrip) {
  const MonitorEndpoint h = parse_endpoint(to_text({new_token(), 4321, {"10.0.0.1", "fd00::1"}}));
  EXPECT_EQ(h.port, 4321);
  EXPECT_EQ(h.addresses, (std::vector<std::string>{"10.0.0.1", "fd00::1"}));
  EXPECT_NE(new_token(), new_token());
  for (const char* bad : {"", "x", "t:1", "t:0:a", "t:99999:a", "t:1x:a", "t:12:", ":12:a"})
    EXPECT_THROW(parse_endpoint(bad), Error) << bad;
}

TEST(MonitorEndpoint, AddressesOfThisHostEndWithLoopback) {
  const auto addresses = own_addresses();
  ASSERT_FALSE(addresses.empty());
  EXPECT_TRUE(addresses.back() == "127.0.0.1" || addresses.back() == "::1") << addresses.back();
}

}  // namespace
}  // namespace tessera::launch
