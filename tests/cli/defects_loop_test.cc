// A completed step is never lost: `tessera train` with errors, signals, full disks and damaged
// files of its run directory.
#include <sys/stat.h>

#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

constexpr const char* kRun =
    "model: { layers: 1, hidden: 32, heads: 4, vocabulary: 257, context: 32 }\n"
    "data: { tokenizer: t.json, train: [d], sequence_length: 32 }\n"
    "batch: { global: 4, micro: 1 }\n"
    "schedule: { steps: 12 }\n"
    "checkpoint: { every_steps: 0, retry_s: 0 }\n"
    "run: { directory: run, seed: 1, threads: 1 }\n";
constexpr const char* kTwo = "mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2";
constexpr const char* kFour = "mpirun --allow-run-as-root --oversubscribe --bind-to none -n 4";

class DefectsLoop : public ProgramFolder {
 protected:
  DefectsLoop() { put("n.yaml", kRun); }

  // A data set without PREFIX.json.
  void put_ids(const std::string& prefix, const std::vector<uint16_t>& ids) const {
    std::string bin(reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof ids[0]);
    std::string idx("MMIDIDX\0\0", 9);
    const auto add = [&](auto value) {
      idx.append(reinterpret_cast<const char*>(&value), sizeof value);
    };
    add(uint64_t{1});
    add(uint8_t{8});  // u16
    add(uint64_t{1});
    add(uint64_t{2});
    add(static_cast<int32_t>(ids.size()));
    add(int64_t{0});
    add(int64_t{0});
    add(int64_t{1});
    put(prefix + ".bin", bin);
    put(prefix + ".idx", idx);
  }
  // Ids of text, and one that no vocabulary here has.
  void put_bad_ids(const std::string& prefix, size_t count, size_t bad) const {
    std::vector<uint16_t> ids(count);
    for (size_t i = 0; i < count; ++i) ids[i] = static_cast<uint16_t>(97 + i * i % 26);
    ids[bad] = 60000;
    put_ids(prefix, ids);
  }

  // Steps with a line in metrics.jsonl.
  int64_t recorded() const {
    if (!std::filesystem::exists(folder_ / "run/metrics.jsonl")) return 0;
    const std::string text = get("run/metrics.jsonl");
    int64_t n = 0;
    for (size_t at = 0; (at = text.find("\"grad_norm\"", at)) != std::string::npos; ++at) ++n;
    return n;
  }
  bool saved(int64_t step) const {
    return std::filesystem::exists(folder_ / fmt::format("run/checkpoints/{}/index.json", step));
  }
  static void expect_text(const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts)
      EXPECT_NE(text.find(part), std::string::npos) << "expected: " << part << "\nin: " << text;
  }
  // Calls on paths below the folder fail; see tests/resume/fail_calls.cc.
  std::string failing(const std::string& calls, const std::string& path, int code,
                      const std::string& more = "") const {
    return fmt::format("{} FAIL_CALLS={} FAIL_PATH={} FAIL_ERRNO={} LD_PRELOAD={}", more, calls,
                       path, code, TESSERA_FAIL_CALLS);
  }
  // Runs `shell` in the folder, with the program as $T.
  int shell(const std::string& text) const {
    put("script.sh", text);
    const std::string line = fmt::format("cd {}; T={} bash script.sh >shell.out 2>&1",
                                         folder_.string(), tessera_program());
    const int status = std::system(line.c_str());
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
};

constexpr const char* kUntilStep =
    "until grep -q '\"step\":'$1, run/metrics.jsonl 2>/dev/null; do sleep 0.01; done\n";

TEST_F(DefectsLoop, H4_ABadIdOfTheTrainingDataSavesTheLastStep) {
  put_bad_ids("bad", 4000, 3000);
  const std::string line = "train n.yaml data.train=[bad] schedule.steps=60 ";
  struct Layout {
    std::string keys, before;
  };
  for (const Layout& l : {Layout{"", ""}, Layout{"layout.data=2", kTwo},
                          Layout{"model.layers=2 layout.pipeline=2", kTwo},
                          Layout{"layout.tensor=2 layout.data=2 layout.zero=2", kFour}}) {
    SCOPED_TRACE(l.keys);
    std::filesystem::remove_all(folder_ / "run");
    const ProgramResult r = run(line + l.keys, l.before);
    EXPECT_NE(r.code, 0);
    expect_text(r.err, {"bad.bin: token 3000 of document 0", "is 60000", "is saved"});
    EXPECT_GT(recorded(), 0);
    EXPECT_TRUE(saved(recorded())) << recorded() << r.err;
    const int64_t before = recorded();
    EXPECT_NE(run(line + l.keys, l.before).code, 0);  // which changes nothing
    EXPECT_EQ(recorded(), before);
    EXPECT_TRUE(saved(before));
  }
}

TEST_F(DefectsLoop, H4_ABadIdOfAValidationSetIsFoundBeforeTheFirstStep) {
  put_bad_ids("bad", 500, 400);
  const ProgramResult r = run("train n.yaml data.validation=[bad]");
  EXPECT_EQ(r.code, 1);
  expect_text(r.err, {"bad.bin: token 400 of document 0", "is 60000"});
  EXPECT_EQ(recorded(), 0);
}

// A failure on one rank after the last save: opening the checkpoint for the tasks.
TEST_F(DefectsLoop, H4_TheLastSaveComesBeforeTheLastValidation) {
  put("words.yaml",
      "kind: choice\ndata: e.jsonl\nform: \"{query} {response}\"\nresponse: \"{choices}\"\n"
      "gold: gold\n");
  put("e.jsonl", "{\"query\": \"the\", \"choices\": [\"fox\", \"dog\"], \"gold\": 0}\n");
  for (const std::string& before : {std::string(), std::string(kTwo)}) {
    SCOPED_TRACE(before);
    std::filesystem::remove_all(folder_ / "run");
    const std::string data = before.empty() ? "" : " layout.data=2";
    const ProgramResult r =
        run("train n.yaml evaluation.tasks=[words.yaml]" + data,
            failing("open", "/checkpoints/12/", EIO, before.empty() ? "" : "FAIL_RANK=1") + " " +
                before);
    EXPECT_NE(r.code, 0) << r.out;
    expect_text(r.err, {"Input/output error", "Step 12 is saved"});
    EXPECT_TRUE(saved(12)) << r.err;
    EXPECT_EQ(recorded(), 12);
  }
}

TEST_F(DefectsLoop, H4_LinesThatCannotBeWrittenAreWrittenLater) {
  ASSERT_EQ(run("train n.yaml").code, 0);
  const int64_t lines = recorded();
  std::filesystem::remove_all(folder_ / "run");
  put("full", "");
  for (const char* path : {"run/metrics.jsonl", "run/tensorboard", "run/log.txt", "run/run.yaml"}) {
    SCOPED_TRACE(path);
    std::filesystem::remove_all(folder_ / "run");
    ASSERT_EQ(run("train n.yaml run.stop_after_steps=2").code, 0);
    const ProgramResult r =
        run("train n.yaml checkpoint.every_steps=3",
            failing("write", path, ENOSPC, fmt::format("FAIL_WHILE={}/full", folder_.string())));
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_TRUE(saved(12));
    const std::string told = r.out + r.err;
    size_t warnings = 0;
    for (size_t at = 0; (at = told.find("No space left", at)) != std::string::npos; ++at)
      ++warnings;
    EXPECT_EQ(warnings, 1u) << told;
  }
  std::filesystem::remove_all(folder_ / "run");
  const std::string while_full = failing("write", "run/metrics.jsonl", ENOSPC,
                                         fmt::format("FAIL_WHILE={}/full", folder_.string()));
  EXPECT_EQ(shell(fmt::format("{} $T train n.yaml schedule.steps=3000 & pid=$!\n"
                              "until grep -q 'kept in memory' run/log.txt; do sleep 0.01; done "
                              "2>&-\nsleep 0.2; rm full\n"
                              "until grep -q '\"step\":20,' run/metrics.jsonl; do sleep 0.01; "
                              "done\nkill -TERM $pid; wait $pid",
                              while_full)),
            0)
      << get("shell.out");
  const std::string text = get("run/metrics.jsonl");
  int64_t step = 0;
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    EXPECT_EQ(std::get<int64_t>(parse_json(text.substr(at, end - at), "line").find("step")->value),
              ++step);
  EXPECT_GE(step, 2);
  EXPECT_TRUE(saved(step));
  EXPECT_EQ(lines, 12);
}

TEST_F(DefectsLoop, H4_AFullDiskUsesTheReserve) {
  // The first write of pieces fails, and succeeds once the reserve has been released.
  put("full", "");
  const std::string reserve = (folder_ / "run/checkpoints/reserve-0.part").string();
  const ProgramResult r =
      run("train n.yaml", failing("write", "/pieces-0", ENOSPC, "FAIL_WHILE=" + reserve));
  EXPECT_EQ(r.code, 0) << r.err << r.out;
  EXPECT_TRUE(saved(12));
  EXPECT_FALSE(std::filesystem::exists(reserve));
  EXPECT_EQ((r.out + r.err).find("could not be saved"), std::string::npos) << r.out;
  // The same for what is written after the pieces.
  std::filesystem::remove_all(folder_ / "run");
  for (const char* file : {"/index.json", "/tokenizer.json"}) {
    SCOPED_TRACE(file);
    std::filesystem::remove_all(folder_ / "run");
    const ProgramResult again =
        run("train n.yaml", failing("write,fsync", file, ENOSPC, "FAIL_WHILE=" + reserve));
    EXPECT_EQ(again.code, 0) << again.err << again.out;
    EXPECT_TRUE(saved(12));
  }
}

TEST_F(DefectsLoop, H4_AFailedSaveIsAWarningUntilTheEnd) {
  const std::string some = failing("write", "/checkpoints/4", EIO);
  const ProgramResult r = run("train n.yaml checkpoint.every_steps=4", some);
  EXPECT_EQ(r.code, 0) << r.err;
  expect_text(r.out, {"warning: step 4 could not be saved", "saved 8", "saved 12"});
  EXPECT_TRUE(saved(12));
  for (const std::string& ranks : {std::string(), std::string(kTwo)}) {
    SCOPED_TRACE(ranks);
    std::filesystem::remove_all(folder_ / "run");
    const std::string own = ranks.empty() ? "" : "FAIL_RANK=1";
    const std::string keys = ranks.empty() ? "" : " layout.data=2";
    const ProgramResult last = run("train n.yaml checkpoint.every_steps=4" + keys,
                                   failing("write", "/checkpoints/12", EIO, own) + " " + ranks);
    EXPECT_NE(last.code, 0);
    expect_text(last.err, {"step 12 could not be saved"});
    EXPECT_TRUE(saved(8)) << last.err;
    EXPECT_EQ(run("train n.yaml" + keys, ranks).code, 0);
    EXPECT_TRUE(saved(12));
  }
}

TEST_F(DefectsLoop, H4_TheLastSaveIsTriedAgain) {
  put("full", "");
  const std::string full = failing("write", "/checkpoints/", ENOSPC,
                                   fmt::format("FAIL_WHILE={}/full", folder_.string()));
  EXPECT_EQ(shell(fmt::format("{} $T train n.yaml checkpoint.retry_s=60 checkpoint.reserve=false &"
                              " pid=$!\nuntil grep -q 'could not be saved' run/log.txt; do sleep "
                              "0.01; done 2>&-\nrm full; wait $pid",
                              full)),
            0)
      << get("shell.out");
  EXPECT_TRUE(saved(12));
}

TEST_F(DefectsLoop, M8_ALostTerminalSavesTheRun) {
  for (const char* signal : {"HUP", "XCPU", "USR1"}) {
    std::filesystem::remove_all(folder_ / "run");
    EXPECT_EQ(shell(fmt::format("set -- 3\n$T train n.yaml schedule.steps=30000 & pid=$!\n{}"
                                "kill -{} $pid; wait $pid",
                                kUntilStep, signal)),
              0)
        << get("shell.out");
    EXPECT_LT(recorded(), 30000);
    EXPECT_TRUE(saved(recorded())) << signal << recorded();
  }
}

TEST_F(DefectsLoop, M8_WhatNohupIgnoresStaysIgnored) {
  EXPECT_EQ(shell(fmt::format("set -- 3\ntrap '' HUP\n$T train n.yaml schedule.steps=400 & "
                              "pid=$!\n{}kill -HUP $pid; wait $pid",
                              kUntilStep)),
            0)
      << get("shell.out");
  EXPECT_EQ(recorded(), 400);
}

TEST_F(DefectsLoop, M8_AReaderThatEndsDoesNotEndTheRun) {
  for (const char* command : {"train n.yaml", "launch n.yaml -n 2 layout.data=2"}) {
    SCOPED_TRACE(command);
    std::filesystem::remove_all(folder_ / "run");
    EXPECT_EQ(
        shell(fmt::format("set -o pipefail\n$T {} schedule.steps=40 2>&1 | head -n 1", command)), 0)
        << get("shell.out");
    EXPECT_EQ(recorded(), 40);
    EXPECT_TRUE(saved(40));
    expect_text(get("run/log.txt"), {"saved 40"});
  }
}

// The terminal of `launch` may be gone by the time when someone looks for the reason.
TEST_F(DefectsLoop, TheDiagnosisOfLaunchIsInTheLogOfTheRun) {
  EXPECT_EQ(shell(fmt::format("set -- 3\n$T launch n.yaml -n 2 --restart 1 --pause 0 layout.data=2 "
                              "schedule.steps=3000 run.stop_after_steps=1500 & pid=$!\n{}"
                              "kill -KILL $(pgrep -P $(pgrep -P $pid) | tail -n 1); wait $pid",
                              kUntilStep)),
            0)
      << get("shell.out");
  expect_text(get("run/log.txt"),
              {"error: launch: rank 1 (host ", "launch: restarting in 0 s with 2 ranks"});
}

TEST_F(DefectsLoop, M10_ACheckpointThatCannotBeRemovedIsAWarning) {
  ASSERT_EQ(
      run("train n.yaml checkpoint.every_steps=1 checkpoint.keep=0 run.stop_after_steps=4").code,
      0);
  const ProgramResult r = run("train n.yaml checkpoint.every_steps=2 checkpoint.keep=1",
                              failing("rename", "/checkpoints/2", EPERM));
  EXPECT_EQ(r.code, 0) << r.err;
  expect_text(r.out, {"warning: ", "checkpoints/2", "saved 12"});
  EXPECT_EQ(r.out.find("warning: "), r.out.rfind("warning: ")) << r.out;  // once
  EXPECT_EQ(r.out.find("could not be saved"), std::string::npos) << r.out;
  EXPECT_TRUE(saved(2));
  EXPECT_FALSE(saved(1));  // and the others are removed
  EXPECT_FALSE(saved(3));
  EXPECT_TRUE(saved(12));
}

TEST_F(DefectsLoop, M11_ADamagedLineIsMovedAside) {
  ASSERT_EQ(run("train n.yaml run.stop_after_steps=4").code, 0);
  const std::string whole = get("run/metrics.jsonl");
  for (int i = 1; i <= 2; ++i) {
    const std::string zeros("\0\0\0\n", 4);
    put("run/metrics.jsonl", zeros + get("run/metrics.jsonl") + "{\"loss\": 3}\n" + zeros);
    const ProgramResult r = run(fmt::format("train n.yaml run.stop_after_steps={}", 4 + i));
    ASSERT_EQ(r.code, 0) << r.err;
    expect_text(r.out, {"warning: run/metrics.jsonl:1", "3 damaged lines were moved to"});
    EXPECT_TRUE(get("run/metrics.jsonl").starts_with(whole));
    EXPECT_EQ(recorded(), 4 + i);
  }
  EXPECT_EQ(get("run/metrics.jsonl.damaged"), get("run/metrics.jsonl.damaged.2"));
}

TEST_F(DefectsLoop, M12_ClosedStandardFilesReachNoOtherFile) {
  for (const char* closed : {"<&- >&-", ">&-", "<&- >&- 2>&-", "2>&-"}) {
    SCOPED_TRACE(closed);
    std::filesystem::remove_all(folder_ / "run");
    EXPECT_EQ(shell(fmt::format("$T train n.yaml {}", closed)), 0);
    const std::string text = get("run/metrics.jsonl");
    for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
      EXPECT_EQ(text[at], '{');
    EXPECT_EQ(recorded(), 12);
    const std::string log = get("run/log.txt");  // its own lines have the time
    for (size_t at = 0, end; (end = log.find('\n', at)) != std::string::npos; at = end + 1)
      EXPECT_EQ(log.substr(at, 2), "20") << log.substr(at);
    EXPECT_EQ(shell(fmt::format("$T train none.yaml {}", closed)), 1);
  }
}

TEST_F(DefectsLoop, M6_ARunFileOfAPersonIsKept) {
  const std::string own = "# mine\n" + std::string(kRun);
  put("run.yaml", own);
  ASSERT_EQ(run("train run.yaml run.directory=. schedule.steps=5").code, 0);
  EXPECT_EQ(get("run.yaml"), own);
  expect_text(get("run.resolved.yaml"), {"tessera", "steps: 5"});
  ASSERT_EQ(run("train n.yaml schedule.steps=2").code, 0);
  const std::string ours = get("run/run.yaml");
  expect_text(ours, {"# The whole configuration as it ran", "steps: 2"});
  ASSERT_EQ(run("train run/run.yaml schedule.steps=3").code, 0);  // the file that is read
  EXPECT_EQ(get("run/run.yaml"), ours);
  ASSERT_EQ(run("train n.yaml schedule.steps=4").code, 0);
  expect_text(get("run/run.yaml"), {"steps: 4"});
}

TEST_F(DefectsLoop, B3_DataIsOpenedBeforeMemoryIsTaken) {
  put_bad_ids("bad", 500, 400);
  ASSERT_EQ(run("train n.yaml schedule.steps=1 run.directory=base").code, 0);
  for (const char* keys : {"data.train=[nowhere]", "data.validation=[nowhere]",
                           "data.validation=[bad]", "model.vocabulary=100"}) {
    const ProgramResult r = run(fmt::format("train n.yaml checkpoint.from=base {}", keys));
    EXPECT_EQ(r.code, 1) << keys;
    EXPECT_EQ(r.out, "") << keys;  // lines of memory and weights come later
  }
}

TEST_F(DefectsLoop, A7_AVocabularyThatIsTooSmallIsRefused) {
  for (const char* keys : {"", "data.train=[good] data.validation=[d]"}) {
    SCOPED_TRACE(keys);
    std::vector<uint16_t> low(2000, 7);
    put_ids("good", low);
    const ProgramResult r = run(fmt::format("train n.yaml model.vocabulary=120 {}", keys));
    EXPECT_EQ(r.code, 1);
    expect_text(r.err, {"d.bin: token", "outside the vocabulary of 120"});
    EXPECT_EQ(recorded(), 0);
  }
  put("e.jsonl", "{\"prompt\": \"aa\", \"response\": \"zz\"}\n");
  const ProgramResult r =
      run("train n.yaml model.vocabulary=120 data.train=[] data.instructions=[e.jsonl] "
          "'data.template={prompt} {response}'");
  EXPECT_EQ(r.code, 1);
  expect_text(r.err, {"outside the vocabulary of 120"});
}

TEST_F(DefectsLoop, B7_AFinishedRunSaysSo) {
  ASSERT_EQ(run("train n.yaml").code, 0);
  const Files before = snapshot("run");
  for (const char* keys : {"", "schedule.steps=5", "run.stop_after_steps=3"}) {
    const ProgramResult r = run(fmt::format("train n.yaml {}", keys));
    EXPECT_EQ(r.code, 0) << r.err;
    expect_text(r.out, {"step 12 of", "is done: nothing to do", "to train further"});
    EXPECT_TRUE(snapshot("run") == before) << keys;
  }
}

// The lines of the last step that an earlier start could not record any more.
TEST_F(DefectsLoop, B7_AFinishedRunIsStillValidated) {
  ASSERT_EQ(run("train n.yaml data.validation=[d]").code, 0);
  const std::string whole = get("run/metrics.jsonl");
  const size_t line = whole.find("{\"step\":12,\"name\"");
  ASSERT_NE(line, std::string::npos);
  put("run/metrics.jsonl", whole.substr(0, line));
  ASSERT_EQ(run("train n.yaml data.validation=[d]").code, 0);
  EXPECT_EQ(get("run/metrics.jsonl"), whole);
}

// The disk is full while checkpoint 3 exists, and no space is reserved.
TEST_F(DefectsLoop, E2_AFullDiskGivesUpTheCheckpointThatWouldBeRemovedNext) {
  const std::string oldest = (folder_ / "run/checkpoints/3").string();
  const std::string keys = "checkpoint.every_steps=3 checkpoint.reserve=false ";
  ProgramResult r = run("train n.yaml checkpoint.keep=3 " + keys,
                        failing("write", "/checkpoints/12.", ENOSPC, "FAIL_WHILE=" + oldest));
  EXPECT_EQ(r.code, 0) << r.err;
  expect_text(r.out, {"run/checkpoints/3 was removed to save a newer checkpoint"});
  for (const int64_t step : {3, 6, 9, 12}) EXPECT_EQ(saved(step), step > 3) << step;
  EXPECT_EQ(run("checkpoint verify run").code, 0);
  for (const char* keep : {"checkpoint.keep=1", "checkpoint.keep=0",
                           "checkpoint.keep=3 checkpoint.keep_every_steps=3"}) {
    SCOPED_TRACE(keep);
    std::filesystem::remove_all(folder_ / "run");
    const std::string last = (folder_ / "run/checkpoints/9").string();
    r = run(fmt::format("train n.yaml {} {}", keep, keys),
            failing("write", "/checkpoints/12.", ENOSPC, "FAIL_WHILE=" + last));
    EXPECT_EQ(r.code, 1);
    expect_text(r.err, {"step 12 could not be saved", "No space left on device"});
    EXPECT_TRUE(saved(9));
    EXPECT_EQ(saved(3), std::string(keep) != "checkpoint.keep=1");
  }
}

// The space of one checkpoint is not enough, since another process has filled it.
TEST_F(DefectsLoop, E2_AFullDiskGivesUpAllButTheLastCheckpoint) {
  const std::string second = (folder_ / "run/checkpoints/6").string();
  const ProgramResult r =
      run("train n.yaml checkpoint.keep=3 checkpoint.every_steps=3 checkpoint.reserve=false",
          failing("write", "/checkpoints/12.", ENOSPC, "FAIL_WHILE=" + second));
  EXPECT_EQ(r.code, 0) << r.err;
  expect_text(r.out, {"run/checkpoints/3 was removed to save a newer checkpoint",
                      "run/checkpoints/6 was removed to save a newer checkpoint"});
  for (const int64_t step : {3, 6, 9, 12}) EXPECT_EQ(saved(step), step > 6) << step;
  EXPECT_EQ(run("checkpoint verify run").code, 0);
}

TEST_F(DefectsLoop, F8_FoldersOfDumpsAreMadeOrRefusedBeforeTheRun) {
  EXPECT_EQ(run("train n.yaml run.dump_values=new/values run.dump_gradients=more/g").code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ / "new/values/values-0.txt"));
  EXPECT_TRUE(std::filesystem::exists(folder_ / "more/g/index.json"));
  std::filesystem::remove_all(folder_ / "run");
  for (const char* keys : {"run.dump_values=a.txt/x", "run.dump_gradients=a.txt/x/g"}) {
    const ProgramResult r = run(fmt::format("train n.yaml {}", keys));
    EXPECT_EQ(r.code, 1);
    expect_text(r.err, {"a.txt/x", "cannot create the directory"});
    EXPECT_EQ(recorded(), 0);
  }
}

}  // namespace
}  // namespace tessera::cli
