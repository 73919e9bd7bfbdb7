#include <cmath>

#include "report/run_data.h"
#include "tests/report/run_folder.h"

namespace tessera::report {
namespace {

class ReadRun : public RunFolder {
 protected:
  RunData read_metrics_text(const std::string& text) {
    put(run("r") / "metrics.jsonl", text);
    return read_run(run("r"));
  }
  RunData read_log_text(const std::string& text, int64_t steps = 100) {
    put(run("r") / "metrics.jsonl", metrics(steps));
    put(run("r") / "log.txt", text);
    return read_run(run("r"));
  }
};

TEST_F(ReadRun, ReadsStepsValidationsAndTasks) {
  const RunData r = read_metrics_text(
      metrics(2) +
      R"({"step":2,"name":"wiki","validation_loss":3.25,"bits_per_byte":1.125})"
      "\n"
      R"({"step":2,"task":"piqa","examples":10,"accuracy":0.5,"accuracy_error":0.1})"
      "\n" +
      R"({"step":3,"loss":null,"bytes_sent":{"data":10,"tensor":2}})"
      "\n"
      R"({"step":4,"loss":1,"bytes_sent":{"data":5,"tensor":0}})"
      "\n");
  EXPECT_EQ(r.steps.step, (std::vector<int64_t>{1, 2, 3, 4}));
  EXPECT_EQ(r.steps.values[Column::kLoss][1], 5.0);
  EXPECT_TRUE(std::isnan(r.steps.values[Column::kLoss][2]));
  EXPECT_TRUE(std::isnan(r.steps.values[Column::kTokens][3]));
  EXPECT_TRUE(r.steps.has(Column::kGradNorm));
  EXPECT_FALSE(r.steps.has(Column::kHiddenS));
  ASSERT_EQ(r.curves.size(), 2u);
  EXPECT_EQ(r.curves[0].name, "wiki");
  EXPECT_EQ(r.curves[0].value, std::vector<double>{3.25});
  EXPECT_EQ(r.curves[1].name, "piqa accuracy");
  EXPECT_EQ(r.curves[1].kind, CurveKind::kTask);
  EXPECT_EQ(r.traffic, (TrafficBytes{{"data", 15}, {"tensor", 2}}));
  EXPECT_TRUE(r.left_out.empty());
}

TEST_F(ReadRun, DamagedLinesAreLeftOutWithTheirPlace) {
  const RunData r = read_metrics_text("{\"step\":1,\"loss\":3}\n{\"step\":\n[]\n{\"loss\":1}\n\n" +
                                      std::string("{\"step\":2,\"loss\":2}\n{\"step\":3,\"lo"));
  EXPECT_EQ(r.steps.step, (std::vector<int64_t>{1, 2}));
  ASSERT_EQ(r.left_out.size(), 2u);
  EXPECT_NE(r.left_out[1].find("metrics.jsonl:7: the last line has no end"), std::string::npos);
  EXPECT_NE(r.left_out[0].find("metrics.jsonl:2:"), std::string::npos);
  EXPECT_NE(r.left_out[0].find("3 damaged lines are left out"), std::string::npos);
}

TEST_F(ReadRun, LinesThatAreNotInOrderAreCounted) {
  EXPECT_EQ(order_warning(read_metrics_text(metrics(3))), "");
  const auto steps = [](std::initializer_list<int> all) {
    std::string text;
    for (const int n : all) text += fmt::format("{{\"step\":{},\"loss\":{}}}\n", n, n);
    return text;
  };
  const std::string twice = order_warning(read_metrics_text(steps({1, 2, 2, 3})));
  EXPECT_NE(twice.find("metrics.jsonl: 1 line of a step that a later line has too, 0 lines of an"),
            std::string::npos)
      << twice;
  const std::string reversed = order_warning(read_metrics_text(steps({1, 3, 2, 4})));
  EXPECT_NE(reversed.find("0 lines of a step that a later line has too, 1 line of an earlier"),
            std::string::npos)
      << reversed;
  const RunData both = read_metrics_text(steps({1, 2, 3, 4, 2, 3, 4, 5}));
  EXPECT_NE(order_warning(both).find("3 lines of a step that a later line has too, 1 line of an"),
            std::string::npos)
      << order_warning(both);
  EXPECT_EQ(both.steps.step, (std::vector<int64_t>{1, 2, 3, 4, 5}));
}

// Every truncation and every changed byte is read without an exception, and keeps the other lines.
TEST_F(ReadRun, AnyDamageKeepsTheOtherLines) {
  const std::string whole = metrics(3);
  for (size_t bytes = 0; bytes <= whole.size(); ++bytes) {
    const RunData r = read_metrics_text(whole.substr(0, bytes));
    const auto lines = std::count(whole.begin(), whole.begin() + static_cast<int64_t>(bytes), '\n');
    EXPECT_EQ(std::ssize(r.steps.step), lines);
  }
  for (size_t at = 0; at < whole.size(); ++at) {
    std::string changed = whole;
    changed[at] = '\x01';
    EXPECT_GE(std::ssize(read_metrics_text(changed).steps.step), 1) << at;
  }
}

TEST_F(ReadRun, TheLastLineOfAStepCounts) {
  const RunData r = read_metrics_text(
      "{\"step\":1,\"loss\":9}\n{\"step\":2,\"loss\":8}\n{\"step\":3,\"loss\":7}\n"
      "{\"step\":2,\"loss\":6}\n");
  EXPECT_EQ(r.steps.step, (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(r.steps.values[Column::kLoss], (std::vector<double>{9, 6, 7}));
}

// With metrics.every_steps, a line is one of several steps of equal time.
TEST_F(ReadRun, ElapsedTimeCountsStepsWithoutALine) {
  const RunData r = read_metrics_text(
      "{\"step\":1,\"step_s\":1}\n{\"step\":10,\"step_s\":2}\n{\"step\":12,\"step_s\":null}\n");
  EXPECT_EQ(r.steps.elapsed_s(), (std::vector<double>{1, 19, 19}));
}

TEST_F(ReadRun, RejectsWhatIsNotARunDirectory) {
  EXPECT_THROW(read_run(folder_ / "absent"), Error);
  EXPECT_THROW(read_run(run("empty")), Error);
  put(folder_ / "file", "");
  EXPECT_THROW(read_run(folder_ / "file"), Error);
}

constexpr const char* kLog =
    "2026-11-24 09:00:00.000 warning: few cores\n"
    "2026-11-24 09:00:00.100 tessera 0.1.0 · run r · llama 0.3 M parameters\n"
    "2026-11-24 09:00:00.100 layout    2 ranks = data 2\n"
    "2026-11-24 09:00:00.100 memory    peak 3.5 MiB (arena, 3,671,808 bytes) + at most 95.4 MiB "
    "outside it, limit 23.54 GiB for this process\n"
    "2026-11-24 09:00:00.100           weights 0.5 MiB, optimizer 1.0 MiB, other 0.0 MiB · live "
    "set 3.0 MiB\n"
    "2026-11-24 09:00:00.200 data      808,726 tokens · this run reads 0.51 of an epoch\n"
    "2026-11-24 09:00:01.000 first step done 1.0 s after the start\n"
    "2026-11-24 09:00:05.700 warning   the loss is high\n"
    "2026-11-24 09:00:10.500 saved 20 in 0.10 s, training paused 0.00 s\n"
    "2026-11-24 09:00:12.300 error: the loss is nan at step 23. Run again\n"
    "  layer 0, forward\n"
    "no time stamp either\n"
    "2026-11-24 09:09:59.000 warning: few cores again\n"
    "2026-11-24 09:10:00.000 tessera 0.1.0 · run r · llama 0.3 M parameters\n"
    "2026-11-24 09:10:00.000 layout    1 rank\n"
    "2026-11-24 09:10:00.100 resume    step 20 from runs/r/checkpoints/20 in 0.05 s\n"
    "2026-11-24 09:10:01.000 first step done 1.0 s after the start\n"
    "2026-11-24 09:10:03.100 stopped by a signal; run the same command to resume\n";

// Steps take 0.5 s, and a line without a step gets that of the last step before it.
TEST_F(ReadRun, FindsTheStepOfEachEvent) {
  const RunData r = read_log_text(kLog);
  ASSERT_EQ(r.log.events.size(), 7u);
  const auto is = [&](size_t i, EventKind kind, int64_t step, const std::string& text) {
    EXPECT_EQ(r.log.events[i].kind, kind) << i;
    EXPECT_EQ(r.log.events[i].step, step) << i;
    EXPECT_EQ(r.log.events[i].text, text) << i;
  };
  is(0, EventKind::kWarning, 0, "few cores");
  is(1, EventKind::kWarning, 10, "the loss is high");  // 1 + floor((5.7 - 1) / 0.5)
  is(2, EventKind::kCheckpoint, 20, "saved 20 in 0.10 s, training paused 0.00 s");
  is(3, EventKind::kError, 23,
     "the loss is nan at step 23. Run again\n  layer 0, forward\nno time stamp either");
  is(4, EventKind::kWarning, 20, "few cores again");  // the step of the start that follows
  is(5, EventKind::kRestart, 20, "resumed at step 20 from runs/r/checkpoints/20 in 0.05 s");
  is(6, EventKind::kStop, 25, "stopped by a signal; run the same command to resume");
  EXPECT_EQ(r.log.events[1].time, "2026-11-24 09:00:05");
}

// Times of later steps do not fill the time of the last save, of a validation after it, or of a
// pause of the training, once a later start has recorded them.
TEST_F(ReadRun, AStopIsAtTheStepThatItSaved) {
  const std::string end =
      "2026-11-24 09:10:00.000 tessera 0.1.0 · run r\n"
      "2026-11-24 09:10:00.100 resume    step 20 from runs/r/checkpoints/20 in 0.05 s\n"
      "2026-11-24 09:10:01.000 first step done 1.0 s after the start\n";
  const auto step_of = [&](const std::string& lines, EventKind kind) {
    const RunData r = read_log_text(
        "2026-11-24 09:00:00.000 tessera 0.1.0 · run r\n"
        "2026-11-24 09:00:00.200 data      808,726 tokens\n"
        "2026-11-24 09:00:01.000 first step done 1.0 s after the start\n" +
        lines + end);
    for (const Event& e : r.log.events)
      if (e.kind == kind) return e.step;
    return int64_t{-1};
  };
  // The save paused the training for all of its 3 s.
  EXPECT_EQ(step_of("2026-11-24 09:00:14.000 saved 20 in 3.00 s, training paused 3.00 s\n"
                    "2026-11-24 09:00:14.100 stopped by a signal; run the same command to resume\n",
                    EventKind::kStop),
            20);
  // After the save, the run was busy with something else until it failed.
  EXPECT_EQ(step_of("2026-11-24 09:00:14.000 saved 20 in 3.00 s, training paused 3.00 s\n"
                    "2026-11-24 09:00:30.000 error: the validation data cannot be read\n",
                    EventKind::kError),
            20);
  // Of a save of 3 s, steps took 2 s: 4 steps of 0.5 s, and one more until the warning.
  EXPECT_EQ(step_of("2026-11-24 09:00:14.000 saved 10 in 3.00 s, training paused 1.00 s\n"
                    "2026-11-24 09:00:14.600 warning   the loss is high\n",
                    EventKind::kWarning),
            15);
  // It went back to step 20 from later steps, of which a line names one.
  EXPECT_EQ(step_of("2026-11-24 09:00:41.000 step 60/100 loss 3.1\n"
                    "2026-11-24 09:00:45.100 warning   the loss is high\n",
                    EventKind::kWarning),
            60);
  EXPECT_EQ(step_of("2026-11-24 09:00:14.000 saved 20 in 0.10 s, training paused 0.10 s\n"
                    "2026-11-24 09:00:16.100 warning   the loss of step 24 is 9.1; the median\n",
                    EventKind::kWarning),
            24);
}

// A start that trains nothing is in the list of events, and charts have no mark of it.
TEST_F(ReadRun, StartsThatTrainNothingAreNoRestarts) {
  const RunData r = read_log_text(
      "2026-11-24 09:00:00.000 tessera 0.1.0 · run r\n"
      "2026-11-24 09:00:00.200 data      808,726 tokens\n"
      "2026-11-24 09:00:01.000 first step done 1.0 s after the start\n"
      "2026-11-24 09:00:50.500 step 100/100 loss 3.1  norm 1.0\n"
      "2026-11-24 09:00:50.600 saved 100 in 0.10 s, training paused 0.10 s\n"
      "2026-11-24 09:05:00.000 error: runs/r holds checkpoints of another run\n"
      "2026-11-24 09:10:00.000 tessera 0.1.0 · run r\n"
      "2026-11-24 09:10:00.100 resume    step 100 from runs/r/checkpoints/100 in 0.05 s\n"
      "2026-11-24 09:10:00.200 data      808,726 tokens\n"
      "2026-11-24 09:10:00.300 step 100 of 100 is done: nothing to do. Set schedule.steps.\n"
      "2026-11-24 09:11:00.000 tessera 0.1.0 · run r\n"
      "2026-11-24 09:11:00.100 error: the memory does not suffice\n"
      "2026-11-24 09:12:00.000 tessera 0.1.0 · run r\n"
      "2026-11-24 09:12:00.100 resume    step 60 from runs/r/checkpoints/60 in 0.05 s\n"
      "2026-11-24 09:12:00.200 data      808,726 tokens\n"
      "2026-11-24 09:12:01.000 first step done 1.0 s after the start\n"
      "2026-11-24 09:12:02.100 error: a row is damaged\n");
  ASSERT_EQ(r.log.events.size(), 7u);
  const auto is = [&](size_t i, EventKind kind, int64_t step, bool marked) {
    EXPECT_EQ(r.log.events[i].kind, kind) << i;
    EXPECT_EQ(r.log.events[i].step, step) << i;
    EXPECT_EQ(r.log.events[i].marked, marked) << i;
  };
  is(0, EventKind::kCheckpoint, 100, true);
  is(1, EventKind::kError, 100, false);
  is(2, EventKind::kStart, 100, false);
  is(3, EventKind::kStart, 0, false);
  is(4, EventKind::kError, 0, false);
  is(5, EventKind::kRestart, 60, true);
  is(6, EventKind::kError, 63, true);
  EXPECT_NE(r.log.events[2].text.find("; step 100 of 100 is done"), std::string::npos);
  std::string trained;
  for (const Start& s : r.log.starts) trained += s.trained ? '1' : '0';
  EXPECT_EQ(trained, "1001");
}

// The data is read after the first lines of a start, which takes longer than several short steps.
TEST_F(ReadRun, AWarningBeforeTheFirstStepIsAtTheStepOfTheStart) {
  const RunData r = read_log_text(
      "2026-11-24 09:00:00.000 tessera 0.1.0 · run r\n"
      "2026-11-24 09:00:03.000 warning   the data is read 10 times\n"
      "2026-11-24 09:00:04.000 first step done 4.0 s after the start\n"
      "2026-11-24 09:00:06.000 warning   the loss is high\n"
      "2026-11-24 09:10:00.000 tessera 0.1.0 · run r\n"
      "2026-11-24 09:10:00.100 resume    step 4 from runs/r/checkpoints/4 in 0.05 s\n"
      "2026-11-24 09:10:03.000 warning   the data is read 11 times\n"
      "2026-11-24 09:10:04.000 first step done 4.0 s after the start\n");
  ASSERT_EQ(r.log.events.size(), 4u);
  EXPECT_EQ(r.log.events[0].step, 0);
  EXPECT_EQ(r.log.events[1].step, 4);  // 5 by its time, but the next start resumes at 4
  EXPECT_EQ(r.log.events[2].kind, EventKind::kRestart);
  EXPECT_EQ(r.log.events[2].step, 4);
  EXPECT_EQ(r.log.events[3].step, 4);
}

TEST_F(ReadRun, ReadsTheStartsAndTheirMemory) {
  const std::string log = kLog;
  const RunData first = read_log_text(log.substr(0, log.find("2026-11-24 09:09:59.000")));
  ASSERT_EQ(first.log.starts.size(), 1u);
  EXPECT_EQ(first.log.starts[0].layout, "2 ranks = data 2");
  EXPECT_EQ(first.log.starts[0].data, "808,726 tokens · this run reads 0.51 of an epoch");
  const Memory& m = first.log.memory;
  EXPECT_EQ(m.arena, 3671808);
  EXPECT_EQ(m.outside, 95.4 * 1048576);
  EXPECT_EQ(m.limit, 23.54 * 1073741824);
  EXPECT_EQ(m.live, 3.0 * 1048576);
  ASSERT_EQ(m.parts.size(), 3u);
  EXPECT_EQ(m.parts[1].name, "optimizer");
  EXPECT_EQ(m.parts[1].bytes, 1048576);
  const RunData both = read_log_text(log);
  ASSERT_EQ(both.log.starts.size(), 2u);
  EXPECT_EQ(both.log.starts[1].resumed_step, 20);
  EXPECT_FALSE(both.log.memory.arena);  // of the last start, which printed none
}

TEST_F(ReadRun, ReadsTheMemoryOfADevice) {
  const RunData r = read_log_text(
      "2026-11-24 09:00:00.100 tessera 0.1.0 · run r\n"
      "2026-11-24 09:00:01.100 memory    on the device: 4,096 bytes planned, 8,192 allocated; "
      "outside_bytes 512 MiB (driver, code), 300 of them before the arena\n");
  EXPECT_EQ(r.log.memory.allocated, 8192);
  EXPECT_EQ(r.log.memory.measured_outside, 512 * 1048576);
}

TEST_F(ReadRun, ReadsTheMeasuredMemory) {
  const RunData r = read_log_text(
      "2026-11-24 09:00:00.100 tessera 0.1.0 · run r\n"
      "2026-11-24 09:00:00.100           weights 0.5 MiB, optimizer 1.0 MiB, other 0.1 MiB · live "
      "set 3.0 MiB\n"
      "2026-11-24 09:00:01.100 memory    measured after the first step: weights 0.5 MiB, optimizer "
      "0.2 MiB, other 0.1 MiB · 64.0 MiB outside the arena\n");
  const Memory& m = r.log.memory;
  ASSERT_EQ(m.parts.size(), 3u);
  EXPECT_EQ(m.parts[1].bytes, 1 << 20);
  EXPECT_EQ(m.parts[1].measured, 0.2 * (1 << 20));
  EXPECT_NEAR(m.allocated.value_or(0), 0.8 * (1 << 20), 1);
  EXPECT_EQ(m.measured_outside, 64 << 20);
}

TEST_F(ReadRun, AStartThatTrainsNothingKeepsTheMeasuredMemory) {
  const std::string trained =
      "2026-11-24 09:00:00.100 tessera 0.1.0 · run r\n"
      "2026-11-24 09:00:00.100           weights 0.5 MiB, other 0.1 MiB · live set 3.0 MiB\n"
      "2026-11-24 09:00:01.000 first step done 1.0 s after the start\n"
      "2026-11-24 09:00:01.100 memory    measured after the first step: weights 0.4 MiB, other 0.1 "
      "MiB · 64.0 MiB outside the arena\n";
  const std::string planned =
      "2026-11-24 09:10:00.100 tessera 0.1.0 · run r\n"
      "2026-11-24 09:10:00.100           weights 0.7 MiB, other 0.1 MiB · live set 3.0 MiB\n";
  EXPECT_EQ(read_log_text(trained + planned).log.memory.parts.at(0).measured, 0.4 * (1 << 20));
  // Without a start that trained, the plan of the last one is there.
  EXPECT_EQ(read_log_text(planned).log.memory.parts.at(0).bytes, 0.7 * (1 << 20));
}

TEST_F(ReadRun, ReadsTheTrainingLossOfEachDataset) {
  put(run("r") / "metrics.jsonl",
      "{\"step\":2,\"loss\":3}\n"
      "{\"step\":2,\"source\":\"wiki\",\"source_loss\":3.5,\"source_tokens\":10}\n"
      "{\"step\":2,\"name\":\"wiki\",\"validation_loss\":4,\"bits_per_byte\":1}\n");
  const RunData r = read_run(run("r"));
  EXPECT_EQ(r.steps.step, std::vector<int64_t>{2});
  ASSERT_EQ(r.curves.size(), 2u);
  EXPECT_EQ(r.curves[0].kind, CurveKind::kSource);
  EXPECT_EQ(r.curves[0].value, std::vector<double>{3.5});
  EXPECT_EQ(r.curves[1].kind, CurveKind::kValidation);
}

TEST_F(ReadRun, AnyTruncationOfALogIsRead) {
  const std::string log = kLog;
  for (size_t bytes = 0; bytes < log.size(); ++bytes) {
    const RunData r = read_log_text(log.substr(0, bytes), 3);
    EXPECT_LE(r.log.events.size(), 7u);
  }
  const RunData odd = read_log_text(
      "2026-13-45 99:99:99.999 saved 1 in\n2026-11-24 09:00:00.000 "
      "saved 99,999,999,999,999,999,999 in 1 s\n");
  EXPECT_EQ(odd.log.events.size(), 1u);
}

std::string bar(int rank, const char* queue, const char* op, const char* origin, double us,
                double duration_us) {
  return fmt::format(
      R"({{"name":"{}","cat":"{}","ph":"X","ts":{},"dur":{},"pid":{},"tid":0,"args":{{"origin":"{}",)"
      R"("bytes":1,"flops":2,"share_of_limit":0.5}}}})",
      op, queue, us, duration_us, rank, origin);
}

std::string trace_text() {
  return R"({"displayTimeUnit":"ms","traceEvents":[{"name":"process_name","ph":"M","pid":0,"tid":0,)"
         R"("args":{"name":"rank 0 of 2, step 8 of a \"}] run"}},)" +
         bar(0, "compute", "matmul", "layer 0, forward.layer, layer.up", 0, 100) + "," +
         bar(0, "compute", "matmul", "layer 1, forward.layer, layer.up", 100, 100) + "," +
         bar(0, "compute", "matmul", "layer 1, recompute.layer, layer.up", 200, 100) + "," +
         bar(0, "compute", "linear_cross_entropy", "head, head.loss", 300, 100) + "," +
         bar(0, "data", "reduce_scatter", "layer 1, reduce.layer, layer.up", 400, 100) + "," +
         bar(1, "compute", "matmul_grad_input", "layer 1, backward.layer, layer.up", 500, 400) +
         "," + bar(1, "compute", "adamw", "update.layer, layer.up", 900, 100) + "]}";
}

TEST_F(ReadRun, ReadsATrace) {
  put(run("r") / "metrics.jsonl", "");
  put(run("r") / "trace.json", trace_text());
  const RunData r = read_run(run("r"));
  EXPECT_TRUE(r.left_out.empty());
  ASSERT_TRUE(r.trace);
  EXPECT_EQ(r.trace->title, "step 8 of a \"}] run");
  EXPECT_NEAR(r.trace->duration_s, 1e-3, 1e-12);
  ASSERT_EQ(r.trace->ranks.size(), 2u);
  const TraceRank& rank = r.trace->ranks[0];
  ASSERT_EQ(rank.rows.size(), 2u);
  EXPECT_EQ(rank.rows[0].queue, "compute");
  ASSERT_EQ(rank.rows[0].bars.size(), 3u);  // both forwards are one bar
  EXPECT_EQ(rank.rows[0].bars[0].activity, Activity::kForward);
  EXPECT_NEAR(rank.rows[0].bars[0].duration_s, 2e-4, 1e-12);
  EXPECT_EQ(rank.rows[0].bars[1].activity, Activity::kRecompute);
  EXPECT_EQ(rank.rows[0].bars[2].activity, Activity::kHead);
  EXPECT_EQ(rank.rows[1].bars[0].activity, Activity::kTransfer);
  std::map<std::string, OpShare> ops;
  for (const OpShare& op : r.trace->ops) ops[op.op] = op;
  EXPECT_NEAR(ops["matmul"].seconds, 1e-4, 1e-12);  // 2 × 100 µs on one of two ranks
  EXPECT_NEAR(ops["matmul"].limit_s, 5e-5, 1e-12);
  EXPECT_NEAR(ops["recomputation"].seconds, 5e-5, 1e-12);
  EXPECT_NEAR(ops["update"].seconds, 5e-5, 1e-12);
  EXPECT_NEAR(ops["waiting"].seconds, 1e-3 - 0.9e-3 / 2, 1e-12);
  double sum = 0;
  for (const OpShare& op : r.trace->ops) sum += op.seconds;
  EXPECT_NEAR(sum, r.trace->duration_s, 1e-12);
}

TEST_F(ReadRun, AnyTruncationOfATraceIsRead) {
  put(run("r") / "metrics.jsonl", "");
  const std::string text = trace_text();
  for (size_t bytes = 0; bytes < text.size(); bytes += 3) {
    put(run("r") / "trace.json", text.substr(0, bytes));
    EXPECT_FALSE(read_run(run("r")).left_out.empty()) << bytes;
  }
}

TEST_F(ReadRun, ReadsTheConfiguration) {
  put(run("r") / "metrics.jsonl", "");
  put(run("r") / "run.yaml", "run:\n  name: r\ndata:\n  train:\n    - prefix: a\n  split: \"\"\n");
  const std::vector<Setting> expected = {
      {"run.name", "r"}, {"data.train", "[{\"prefix\":\"a\"}]"}, {"data.split", ""}};
  EXPECT_EQ(read_run(run("r")).settings, expected);
  put(run("r") / "run.resolved.yaml", "run: { name: other }\n");
  EXPECT_EQ(read_run(run("r")).settings, (std::vector<Setting>{{"run.name", "other"}}));
  put(run("r") / "run.resolved.yaml", "run: [\n");
  EXPECT_EQ(read_run(run("r")).left_out.size(), 1u);
}

}  // namespace
}  // namespace tessera::report
