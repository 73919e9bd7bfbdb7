// The run directory: one owner, nothing deleted that is needed, resumes fall back past damage, and
// files of users are left alone.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <thread>

#include "tests/cli/held_program.h"

namespace tessera::cli {
namespace {

constexpr const char* kTwoRanks = "mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2";

class Defects : public TinyRun {};

using Names = std::set<std::string>;

TEST_F(Defects, H1_ARollbackKeepsWhatItSavesAndSetsTheRestAside) {
  trained();
  const ProgramResult r = run(
      "train run.yaml checkpoint.resume=never checkpoint.from=run/checkpoints/6 "
      "checkpoint.load=all checkpoint.every_steps=1 checkpoint.keep=1 schedule.steps=10 --json");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_in(r.out, {"\"checkpoint\":\"run/checkpoints/10\""});
  EXPECT_EQ(names("run/checkpoints"), (Names{"6", "10"}));  // the start, and the newest
  const std::string aside = set_aside();
  expect_in(aside, {"-after-step-6"});
  expect_in(r.err, {"set aside", "2 checkpoints", "6 lines of metrics.jsonl", aside});
  EXPECT_EQ(names(aside + "/checkpoints"), (Names{"9", "12"}));
  EXPECT_EQ(steps(aside + "/metrics.jsonl"), range(7, 12));
  EXPECT_EQ(names(aside + "/tensorboard").size(), 1u);
  EXPECT_EQ(steps("run/metrics.jsonl"), range(1, 10));
  EXPECT_EQ(run("checkpoint verify " + aside + "/checkpoints").code, 0);
  // The next start, and readers, use the present line.
  EXPECT_EQ(run("checkpoint diff run run/checkpoints/10").code, 0);
  expect_in(run("train run.yaml schedule.steps=11").out, {"resume    step 10"});
}

TEST_F(Defects, H1_AStartFromScratchSetsEverythingAside) {
  trained();
  const ProgramResult r = run("train run.yaml checkpoint.resume=never schedule.steps=4");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(names("run/checkpoints"), (Names{"3", "4"}));
  EXPECT_EQ(steps("run/metrics.jsonl"), range(1, 4));
  const std::string aside = set_aside();
  EXPECT_EQ(names(aside + "/checkpoints"), (Names{"6", "9", "12"}));
  EXPECT_EQ(steps(aside + "/metrics.jsonl"), range(1, 12));
  EXPECT_EQ(names("run/tensorboard").size(), 1u);
}

TEST_F(Defects, H1_AnotherRunsCheckpointBeginsALineOfItsOwn) {
  trained("run.directory=other");
  trained("schedule.steps=9");
  const ProgramResult r =
      run("train run.yaml checkpoint.resume=never checkpoint.from=other checkpoint.load=all "
          "schedule.steps=14");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(names("run/checkpoints"), (Names{"14"}));
  EXPECT_EQ(names("other/checkpoints"), (Names{"6", "9", "12"}));
  EXPECT_EQ(names(set_aside() + "/checkpoints"), (Names{"3", "6", "9"}));
  EXPECT_EQ(steps("run/metrics.jsonl"), range(13, 14));
}

TEST_F(Defects, H1_FromStepGoesBackInOneRun) {
  trained();
  ProgramResult r = run("train run.yaml --from-step 7");
  EXPECT_EQ(r.code, 1);
  expect_in(r.err, {"--from-step 7", "no checkpoint of this step", "6, 9, 12"});
  EXPECT_EQ(names("run/checkpoints"), (Names{"6", "9", "12"}));
  EXPECT_EQ(run("train run.yaml --from-step -2").code, 2);
  r = run("train run.yaml --from-step 9 optimizer.learning_rate=1e-4 schedule.steps=11");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_in(r.out, {"resume    step 9", "learning_rate", "set aside"});
  EXPECT_EQ(names("run/checkpoints"), (Names{"6", "9", "11"}));
  EXPECT_EQ(names(set_aside() + "/checkpoints"), (Names{"12"}));
  EXPECT_EQ(steps("run/metrics.jsonl"), range(1, 11));
}

// `launch` gives the same keys to every start, a requeued job too.
TEST_F(Defects, H1_ARestartContinuesARunThatBeganFromScratch) {
  trained("schedule.steps=6");
  const ProgramResult r =
      run("launch run.yaml -n 1 checkpoint.resume=never schedule.steps=8", "SLURM_RESTART_COUNT=1");
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_FALSE(fs::exists(folder_ / "run/set_aside"));
  EXPECT_EQ(steps("run/metrics.jsonl"), range(1, 8));
}

TEST_F(Defects, H1_NothingIsSetAsideForAStartThatFails) {
  trained();
  const Files before = snapshot("run");
  for (const char* keys : {"checkpoint.resume=never data.train=[nowhere]",
                           "checkpoint.resume=never checkpoint.from=nowhere",
                           "--from-step 6 run.seed=2", "--from-step 6 data.validation=[nowhere]"}) {
    EXPECT_EQ(run(std::string("train run.yaml ") + keys).code, 1) << keys;
    EXPECT_TRUE(snapshot("run") == before) << keys;
  }
}

TEST_F(Defects, H1_CheckpointsOnAnotherDiskAreSetAsideThere) {
  if (!fs::is_directory("/dev/shm")) GTEST_SKIP() << "no /dev/shm here";
  const Path disk = fs::path("/dev/shm") / folder_.filename();
  fs::create_directories(disk);
  fs::create_directories(folder_ / "run");
  fs::create_directory_symlink(disk, folder_ / "run/checkpoints");
  trained();
  EXPECT_EQ(run("train run.yaml --from-step 6 schedule.steps=7").code, 0);
  EXPECT_EQ(names("run/checkpoints"), (Names{"6", "7", "set_aside"}));
  const Names inside = names("run/checkpoints/set_aside");
  ASSERT_EQ(inside.size(), 1u);
  EXPECT_EQ(names("run/checkpoints/set_aside/" + *inside.begin()), (Names{"9", "12"}));
  fs::remove_all(disk);
}

TEST_F(Defects, H2_WhatCannotBeReadStopsTheRun) {
  trained();
  fs::permissions(folder_, fs::perms::all);
  const std::string metrics = get("run/metrics.jsonl");
  // As a user that may not read them: the superuser reads everything.
  if (::geteuid() != 0) GTEST_SKIP() << "needs the superuser, to become another user";
  for (const char* step : {"9", "12"})
    fs::permissions(folder_ / "run/checkpoints" / step, fs::perms::owner_all);
  const std::string own = fmt::format(
      "chown -R 65534:65534 {0}; chown -R root {0}/run/checkpoints/9 "
      "{0}/run/checkpoints/12",
      folder_.string());
  ASSERT_EQ(std::system(own.c_str()), 0);
  const ProgramResult r =
      run("train run.yaml schedule.steps=14",
          "setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/nonexistent");
  EXPECT_EQ(r.code, 1) << r.out;
  expect_in(r.err, {"run/checkpoints/12", "Permission denied"});
  EXPECT_EQ(get("run/metrics.jsonl"), metrics);
  EXPECT_EQ(names("run/checkpoints"), (Names{"6", "9", "12"}));
}

TEST_F(Defects, H2_IfNoCheckpointCanBeUsedTheRunStops) {
  trained();
  for (const char* step : {"6", "9", "12"})
    flip(fmt::format("run/checkpoints/{}/index.json", step), 100);
  const std::string metrics = get("run/metrics.jsonl");
  const ProgramResult r = run("train run.yaml schedule.steps=14");
  EXPECT_EQ(r.code, 1);
  expect_in(r.err, {"run/checkpoints: none of the checkpoints there (3)", "run/checkpoints/6",
                    "checkpoint.resume=never"});
  EXPECT_EQ(get("run/metrics.jsonl"), metrics);
  EXPECT_EQ(names("run/checkpoints"), (Names{"6", "9", "12"}));
  EXPECT_EQ(run("train run.yaml checkpoint.resume=never schedule.steps=2").code, 0);
  EXPECT_EQ(names(set_aside() + "/checkpoints"), (Names{"6", "9", "12"}));
}

// Every kind of damage, at every file of the newest checkpoint and of the one before.
TEST_F(Defects, M1_AResumeFallsBackPastDamage) {
  trained();
  const fs::path keep = folder_ / "keep";
  fs::copy(folder_ / "run", keep, fs::copy_options::recursive);
  const std::string c12 = "run/checkpoints/12/", c9 = "run/checkpoints/9/";
  const std::vector<std::pair<std::string, std::function<void()>>> damages = {
      {"flipped piece", [&] { flip(c12 + "pieces-0.bin", 1000); }},
      {"last piece",
       [&] { flip(c12 + "pieces-0.bin", std::ssize(get(c12 + "pieces-0.bin")) - 70); }},
      {"cut piece", [&] { fs::resize_file(folder_ / (c12 + "pieces-0.bin"), 999); }},
      {"no piece", [&] { fs::remove(folder_ / (c12 + "pieces-0.bin")); }},
      {"no index", [&] { fs::remove(folder_ / (c12 + "index.json")); }},
      {"flipped index", [&] { flip(c12 + "index.json", 40); }},
      {"a pipe",
       [&] {
         fs::remove(folder_ / (c12 + "pieces-0.bin"));
         ASSERT_EQ(::mkfifo((folder_ / (c12 + "pieces-0.bin")).c_str(), 0600), 0);
       }},
      {"flipped tokenizer", [&] { flip(c12 + "tokenizer.json", 40); }},
      {"empty folder",
       [&] {
         fs::remove_all(folder_ / c12);
         fs::create_directory(folder_ / c12);
       }},
      {"two", [&] {
         flip(c12 + "pieces-0.bin", 1000);
         flip(c9 + "pieces-0.bin", 2000);
       }}};
  for (const auto& [what, damage] : damages) {
    SCOPED_TRACE(what);
    fs::remove_all(folder_ / "run");
    fs::copy(keep, folder_ / "run", fs::copy_options::recursive);
    damage();
    const std::string from = what == "two" ? "6" : "9";
    const ProgramResult r = run("train run.yaml schedule.steps=13");
    ASSERT_EQ(r.code, 0) << r.err;
    expect_in(r.out, {"warning: run/checkpoints/12 is not used: ", "resume    step " + from,
                      "renamed   run/checkpoints/12 to 12.damaged"});
    const Names now = names("run/checkpoints");
    EXPECT_TRUE(now.contains("12.damaged") && now.contains("12") && now.contains("13"));
    EXPECT_EQ(steps("run/metrics.jsonl"), range(1, 13));
    EXPECT_EQ(run("checkpoint verify run/checkpoints/12").code, 0);
  }
}

// With keep: 1, the intact checkpoint that the run fell back to must stay.
TEST_F(Defects, M1_DamagedOnesAreNotCountedAsKept) {
  trained();
  flip("run/checkpoints/12/pieces-0.bin", 1000);
  ASSERT_EQ(run("train run.yaml checkpoint.keep=1 schedule.steps=10").code, 0);
  EXPECT_EQ(names("run/checkpoints"), (Names{"9", "10", "12.damaged"}));
}

TEST_F(Defects, M1_AnotherRunsDamageIsPassedAndLeftAlone) {
  trained("run.directory=other");
  flip("other/checkpoints/12/pieces-0.bin", 1000);
  const Files before = snapshot("other");
  const ProgramResult r =
      run("train run.yaml checkpoint.from=other checkpoint.load=all schedule.steps=11");
  ASSERT_EQ(r.code, 0) << r.err;
  expect_in(r.out, {"step 9 from other/checkpoints/9"});
  EXPECT_TRUE(snapshot("other") == before);
  // A checkpoint that is named has no substitute.
  EXPECT_EQ(run("train run.yaml run.directory=new checkpoint.from=other/checkpoints/12 "
                "checkpoint.load=all")
                .code,
            1);
}

// A rank finds damage that the other one does not read.
TEST_F(Defects, M1_AllRanksFallBackTogether) {
  const std::string line = "train run.yaml layout.data=2 layout.zero=3 ";
  ASSERT_EQ(run(line, kTwoRanks).code, 0);
  for (const char* file : {"pieces-0.bin", "pieces-1.bin"}) {
    fs::remove_all(folder_ / "keep");
    fs::copy(folder_ / "run", folder_ / "keep", fs::copy_options::recursive);
    flip(std::string("run/checkpoints/12/") + file, 1000);
    const ProgramResult r = run(line + "schedule.steps=13", kTwoRanks);
    ASSERT_EQ(r.code, 0) << r.err;
    expect_in(r.out, {"12 is not used", file, "resume    step 9"});
    fs::remove_all(folder_ / "run");
    fs::rename(folder_ / "keep", folder_ / "run");
  }
}

TEST_F(Defects, H3_ASecondRunIsRefusedByTheName) {
  Held first(fmt::format("cd {}; timeout 60 {} train run.yaml schedule.steps=100000 2>&1",
                         folder_.string(), tessera_program()));
  while (!fs::exists(folder_ / "run/checkpoints/6"))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const std::string owner = get("run/run.lock");
  const auto pid = std::get<int64_t>(parse_json(owner, "run.lock").find("pid")->value);
  const std::string log = get("run/log.txt").substr(0, 200);
  for (const std::string& before : {std::string(), std::string(kTwoRanks)}) {
    const std::string keys = before.empty() ? "" : " layout.data=2";
    const ProgramResult r = run("train run.yaml optimizer.learning_rate=5e-3" + keys, before);
    EXPECT_EQ(r.code, 1) << r.out;
    expect_in(r.err, {"run.directory = run", fmt::format("process {} on ", pid),
                      "has owned it since 2", "set run.directory"});
  }
  EXPECT_EQ(get("run/log.txt").find("error: "), std::string::npos);
  EXPECT_TRUE(get("run/log.txt").starts_with(log));
  // Readers need no lock.
  EXPECT_EQ(run("checkpoint ls run").code, 0);
  EXPECT_EQ(run("generate run --prompt a --max-tokens 2").code, 0);
  ::kill(static_cast<pid_t>(pid), SIGKILL);
  first.wait();
  EXPECT_EQ(get("run/run.lock"), owner);  // a lock that a killed process left blocks no start
  const ProgramResult r = run("train run.yaml run.stop_after_steps=1 schedule.steps=100000");
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_FALSE(fs::exists(folder_ / "run/run.lock"));
}

TEST_F(Defects, L11_LinksAtPredictableNamesAreNotFollowed) {
  put("victim", "keep");
  fs::create_directory(folder_ / "run");
  for (const char* link : {"x.bin.part", "x.idx.part", "x.json.part", "x.lengths.part",
                           "run/run.yaml.part", "run/metrics.jsonl.part", "v.json.part"})
    fs::create_symlink(folder_ / "victim", folder_ / link);
  EXPECT_EQ(run("data build --tokenizer t.json --out x a.txt").code, 0);
  EXPECT_EQ(run("tokenizer train --vocabulary 260 --out v.json a.txt").code, 0);
  trained("schedule.steps=2");
  EXPECT_EQ(get("victim"), "keep");
}

TEST_F(Defects, L13_PipesAndDevicesAreRefusedByName) {
  trained("schedule.steps=2");
  const auto pipe = [&](const std::string& name) {
    fs::remove(folder_ / name);
    ASSERT_EQ(::mkfifo((folder_ / name).c_str(), 0600), 0);
  };
  const std::string limit = "ulimit -v 4000000; timeout 20";
  pipe("run/checkpoints/2/index.json");
  ProgramResult r = run("generate run/checkpoints/2 --prompt a", limit);
  EXPECT_EQ(r.code, 1);
  expect_in(r.err, {"index.json: is a FIFO"});
  put("p.bin", get("d.bin"));
  pipe("p.idx");
  r = run("data inspect p", limit);
  EXPECT_EQ(r.code, 1);
  expect_in(r.err, {"p.idx: is a", "pipe"});
  r = run("train run.yaml data.tokenizer=/dev/zero", limit);
  EXPECT_EQ(r.code, 1);
  expect_in(r.err, {"/dev/zero: is a device"});
  r = run("data build --tokenizer t.json --out z /dev/zero", limit);
  EXPECT_EQ(r.code, 1);
  expect_in(r.err, {"/dev/zero: is a device"});
  EXPECT_EQ(run("train /dev/zero", limit).code, 1);
  // These may be pipes.
  EXPECT_EQ(run("data build --force --tokenizer t.json --out z -", "cat a.txt |").code, 0);
  EXPECT_EQ(get("z.bin"), get("d.bin"));
  EXPECT_EQ(run("data build --force --tokenizer t.json --out z /dev/stdin", "cat a.txt |").code, 0);
  EXPECT_EQ(get("z.bin"), get("d.bin"));
  EXPECT_EQ(run("config print /dev/stdin", "cat run.yaml |").code, 0);
  // The scaled-down run needs the run file several times, but a pipe can be read only once.
  ProgramResult small = run("config print run.yaml --small run.name=n run.directory=r");
  r = run("config print /dev/stdin --small run.name=n run.directory=r", "cat run.yaml |");
  EXPECT_EQ(small.code, 0) << small.err;
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(r.out, small.out);
}

TEST_F(Defects, M5_VerifyLeavesWhatItDidNotMake) {
  fs::create_directories(folder_ / "proj/verify");
  put("proj/verify/thesis.txt", "years");
  put("proj/one.log", "mine");
  const ProgramResult r = run("verify run.yaml run.directory=proj --steps 1");
  EXPECT_EQ(r.code, 0) << r.err << r.out;
  EXPECT_EQ(get("proj/verify/thesis.txt"), "years");
  EXPECT_EQ(names("proj"), (Names{"one.log", "verify"}));
}

TEST_F(Defects, L14_ARunsNameIsAName) {
  for (const char* name : {"..", ".", "a/b", "\"a\\nb\"", "\"\\e[2J\""}) {
    put("named.yaml", fmt::format("{}", kRun));
    std::string text = get("named.yaml");
    text.replace(text.find("directory: run"), 14, std::string("name: ") + name);
    put("named.yaml", text);
    const ProgramResult r = run("train named.yaml");
    EXPECT_EQ(r.code, 1) << name;
    expect_in(r.err, {"run.name", "expected a name without"});
    EXPECT_EQ(r.err.find('\x1b'), std::string::npos);
  }
  EXPECT_FALSE(fs::exists(folder_ / "checkpoints"));
}

TEST_F(Defects, B14_AnInterruptedBuildSaysSoAndLeavesNothing) {
  for (const char* signal : {"INT", "TERM"}) {
    const Names before = names("");
    // A text that does not end.
    const ProgramResult r = run("data build --tokenizer t.json --out x - --split lines",
                                fmt::format("yes 'a line of text' | timeout -s {} 3", signal));
    EXPECT_EQ(r.code, 124);
    expect_in(r.err, {"stopped by a signal: x was not written", "documents"});
    EXPECT_EQ(names(""), before);
  }
}

}  // namespace
}  // namespace tessera::cli
