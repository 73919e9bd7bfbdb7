// Pages about runs of preference objectives, about several runs, and about a sweep.
#include "base/tree.h"
#include "report/page.h"
#include "tests/report/run_folder.h"

namespace tessera::report {
namespace {

bool shows(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

class RunsPage : public RunFolder {
 protected:
  RunData read(const std::string& name, const std::string& text, const std::string& yaml) {
    put(run(name) / "metrics.jsonl", text);
    put(run(name) / "run.yaml", yaml);
    return read_run(run(name));
  }
  RunData preferences(const std::string& name, const std::string& kind) {
    return read(name,
                R"({"step":1,"tokens":4,"loss":0.69,"tokens_per_s":120,"rewards_chosen":0.5,)"
                R"("rewards_rejected":0.25,"rewards_margins":0.25,"rewards_accuracies":0.75,)"
                R"("logps_chosen":-4,"logps_rejected":-6})"
                "\n"
                R"({"step":1,"name":"held","validation_loss":0.6,"validation_rewards_margins":0.5,)"
                R"("validation_rewards_accuracies":0.25,"validation_logps_chosen":-9})"
                "\n",
                "objective: { kind: " + kind + " }\n");
  }
};

TEST_F(RunsPage, UnitsFollowTheObjective) {
  const auto loss = [&](const char* kind) { return units_of(preferences("r", kind)).loss; };
  for (const char* kind : {"dpo", "orpo", "simpo", "reward"})
    EXPECT_EQ(loss(kind), "nats per pair") << kind;
  EXPECT_EQ(loss("ipo"), "per pair");
  EXPECT_EQ(loss("kto"), "per example");
  EXPECT_EQ(units_of(preferences("r", "kto")).count, "examples");
  EXPECT_EQ(units_of(read("s", metrics(2), "objective: { kind: sft }\n")).count, "tokens");
  // Without a run file, the figures show it.
  EXPECT_EQ(units_of(read("t", metrics(2), "{}\n")).count, "tokens");
  RunData bare = preferences("u", "dpo");
  bare.settings.clear();
  EXPECT_EQ(units_of(bare).count, "pairs");
}

TEST_F(RunsPage, APreferenceRunCountsPairs) {
  const std::string section = summary_section(std::vector{preferences("r", "dpo")});
  for (const char* tile :
       {"<b>0.6900</b><span>training loss (nats per pair)</span>",
        "<b>0.6000</b><span>validation loss (nats per pair), held</span>",
        "<b>75.0 %</b><span>training accuracy</span>", "<b>0.2500</b><span>training margin</span>",
        "<b>25.0 %</b><span>validation accuracy, held</span>",
        "<b>0.5000</b><span>validation margin, held</span>", "<b>4</b><span>pairs</span>",
        "<b>120</b><span>median pairs per second</span>"})
    EXPECT_TRUE(shows(section, tile)) << tile << "\n" << section;
  EXPECT_FALSE(shows(section, "tokens"));
  EXPECT_FALSE(shows(section, "logps"));
}

TEST_F(RunsPage, TheChartsOfAPreferenceRunHaveItsFigures) {
  const Tree data = parse_json(chart_data(std::vector{preferences("r", "dpo")}), "data");
  const Tree& run = data.find("runs")->as_list()->front();
  EXPECT_EQ(*run.find("count")->as_string(), "pairs");
  EXPECT_EQ(*run.find("loss_unit")->as_string(), "nats per pair");
  for (const char* key : {"rewards_chosen", "rewards_rejected", "rewards_margins",
                          "rewards_accuracies", "logps_chosen", "logps_rejected"})
    EXPECT_NE(run.find("series")->find(key), nullptr) << key;
  EXPECT_EQ(run.find("series")->find("kl"), nullptr);
  std::string figures;
  for (const Tree& curve : *run.find("curves")->as_list())
    if (const Tree* figure = curve.find("figure"))
      figures += fmt::format("{} of {}: {}; ", *figure->as_string(),
                             *curve.find("name")->as_string(), to_json(*curve.find("y")));
  EXPECT_EQ(figures,
            "rewards_margins of held: [0.5]; rewards_accuracies of held: [25]; logps_chosen of "
            "held: [-9]; ");
}

RunData with_memory(RunData run, double mib) {
  const double bytes = mib * (1 << 20);
  run.log.memory.parts = {{"weights", bytes, bytes}};
  run.log.memory.arena = run.log.memory.allocated = bytes;
  run.log.memory.outside = 1024.0 * (1 << 20);
  run.log.memory.measured_outside = 83.8 * (1 << 20);
  return run;
}

TEST_F(RunsPage, EachOfSeveralRunsHasOneRowOfMemory) {
  const std::vector<RunData> runs = {with_memory(preferences("a", "dpo"), 153.8),
                                     with_memory(preferences("b", "dpo"), 3)};
  const std::string table = memory_table(runs), visible = table.substr(0, table.find("<details>"));
  size_t rows = 0;
  for (size_t at = visible.find("<tr>"); at != std::string::npos; at = visible.find("<tr>", at + 1))
    ++rows;
  EXPECT_EQ(rows, 3u);  // the head, and a row per run
  EXPECT_TRUE(shows(visible, "<td>a</td><td class=\"n\">153.8 MiB</td>")) << visible;
  EXPECT_TRUE(shows(visible, "<td class=\"n\">1.00 GiB / 0.08 GiB</td>")) << visible;
  EXPECT_TRUE(shows(table, "<summary>memory of b</summary>"));
  // The bars of a single run have a head that states what they show.
  EXPECT_TRUE(shows(memory_table(std::vector{runs[0]}), "planned, as a share of 1.00 GiB"));
}

TEST_F(RunsPage, NamesOfManyRunsAreNoTitle) {
  std::vector<RunData> runs = {preferences("a", "dpo"), preferences("b", "dpo")};
  EXPECT_TRUE(shows(page(runs, {"0.1", std::nullopt}), "<h1>a, b</h1>"));
  runs[0].name = std::string(80, 'x');
  EXPECT_TRUE(shows(page(runs, {"0.1", std::nullopt}), "<h1>2 runs</h1>"));
  runs[0].name = "a";
  for (const char* name : {"c", "d", "e"}) runs.push_back(preferences(name, "dpo"));
  const std::string text = page(runs, {"0.1", std::nullopt});
  EXPECT_TRUE(shows(text, "<h1>5 runs</h1>"));
  EXPECT_TRUE(shows(text, "<p class=\"about\">a, b, c and 2 more</p>"));
}

// A sweep over two keys, of which one is listed and not logarithmic.
SweepData sweep() {
  SweepData s;
  s.name = "tune-sweep";
  s.score = "validation_loss";
  s.method = "random";
  s.keys = {{"optimizer.learning_rate", true, true, false}, {"lora.rank", true, false, true}};
  s.trials = {{0, {"0.004156", "4"}, "finished", 60, 2.127, ""},
              {1, {"0.0002732", "8"}, "stopped", 20, 5.261, ""}};
  return s;
}

TEST_F(RunsPage, AChartOfASweepHasLabelsAndRoundTicks) {
  const std::string section = sweep_section(sweep());
  EXPECT_TRUE(shows(section, "rotate(-90")) << section;
  EXPECT_TRUE(shows(section, ">validation_loss</text>"));
  for (const char* tick : {">0.0005</text>", ">0.002</text>", ">3</text>", ">5</text>"})
    EXPECT_TRUE(shows(section, tick)) << tick;
  for (const char* raw : {">0.004156</text>", ">2.127</text>", ">5.261</text>"})
    EXPECT_FALSE(shows(section, raw)) << raw;
  // A key of few short values has these as ticks, and no value between them.
  const std::string rank = section.substr(section.find("validation_loss over lora.rank"));
  EXPECT_TRUE(shows(rank, ">4</text>") && shows(rank, ">8</text>"));
  EXPECT_FALSE(shows(rank, ">6</text>"));
}

TEST_F(RunsPage, ThePageOfASweepHasItsName) {
  const std::vector<RunData> runs = {preferences("003", "dpo"), preferences("004", "dpo")};
  const std::string text = page(runs, {"0.1", std::nullopt, sweep()});
  EXPECT_TRUE(shows(text, "<title>tune-sweep</title>"));
  EXPECT_TRUE(shows(text, "<h1>tune-sweep</h1>"));
  EXPECT_TRUE(shows(text, "sweep of 2 trials, with the curves of the best 2"));
}

}  // namespace
}  // namespace tessera::report
