#include "report/page.h"

#include "base/tree.h"
#include "tests/report/run_folder.h"

namespace tessera::report {
namespace {

size_t count(std::string_view text, std::string_view part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

class Page : public RunFolder {
 protected:
  RunData read(const std::string& name, const std::string& text, const std::string& yaml = "") {
    put(run(name) / "metrics.jsonl", text);
    if (!yaml.empty()) put(run(name) / "run.yaml", yaml);
    return read_run(run(name));
  }
  // The data of the charts, as a browser reads it.
  static Tree data_of(const std::string& page) {
    const std::string begin = "<script type=\"application/json\" id=\"data\">";
    const size_t from = page.find(begin) + begin.size();
    return parse_json(page.substr(from, page.find("</script>", from) - from), "data");
  }
};

TEST(Escaped, LeavesNothingThatHtmlActsOn) {
  EXPECT_EQ(escaped("a<b> & \"c\" 'd'"), "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  EXPECT_EQ(escaped("\x1b[1m\xff"), "\\x1b[1m\\xff");
}

// A name from outside ends no element and starts none, wherever it appears.
TEST_F(Page, NamesAreNotMarkup) {
  const std::string evil = "<script>alert(1)<\\script><img src=x onerror=alert(2)>\"'&";
  const std::string yaml = "run: { name: '</script><script>alert(3)</script>' }\n";
  RunData r = read("r",
                   metrics(3) + R"({"step":3,"name":"</script><b>","validation_loss":1})"
                                "\n",
                   yaml);
  r.name = "</script>" + evil;
  r.left_out.push_back(evil);
  r.log.events.push_back({EventKind::kWarning, 1, "time", "<!-- " + evil});
  r.log.starts.push_back({"time", evil, evil, evil, 0});
  const std::string text = page(std::vector{r, read("s", metrics(3))}, {"0.1", std::nullopt});
  const std::string plain =
      page(std::vector{read("q", metrics(3)), read("s", metrics(3))}, {"0.1", std::nullopt});
  for (const char* tag : {"<script", "</script", "<img", "<b>", "<!--"})
    EXPECT_EQ(count(text, tag), count(plain, tag)) << tag;
  const Tree data = data_of(text);
  const Tree& first = data.find("runs")->as_list()->front();
  EXPECT_EQ(*first.find("name")->as_string(), r.name);
  EXPECT_EQ(*first.find("curves")->as_list()->front().find("name")->as_string(), "</script><b>");
}

TEST_F(Page, IsSelfContained) {
  const std::string text = page(std::vector{read("r", metrics(10))}, {"0.1", std::nullopt});
  EXPECT_TRUE(text.starts_with("<!doctype html>"));
  for (const char* request : {" src=", " href=", "url(", "@import", "sourceMappingURL", "fetch("})
    EXPECT_FALSE(has(text, request)) << request;
  EXPECT_TRUE(has(text, "default-src 'none'"));
  EXPECT_TRUE(has(text, "(MIT)"));  // the license of the chart library
  EXPECT_FALSE(has(text, "@STYLES@"));
}

TEST_F(Page, SeriesKeepExtremesAndOrder) {
  std::string text = metrics(30000);
  const std::string spike = "\"grad_norm\":1.5";
  text.replace(text.find(spike, text.size() / 2), spike.size(), "\"grad_norm\":77");
  const Tree data = data_of(page(std::vector{read("r", text)}, {"0.1", std::nullopt}));
  const Tree& series = *data.find("runs")->as_list()->front().find("series");
  const Tree::List& y = *series.find("grad_norm")->find("y")->as_list();
  const Tree::List& x = *series.find("grad_norm")->find("x")->as_list();
  EXPECT_LE(y.size(), kMostPoints);
  EXPECT_EQ(y.size(), x.size());
  double most = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    most = std::max(most, *number_in(y[i]));
    if (i > 0) {
      EXPECT_LT(*number_in(x[i - 1]), *number_in(x[i]));
    }
  }
  EXPECT_EQ(most, 77);
  EXPECT_EQ(series.find("hidden_share"), nullptr);  // a run on one rank
}

TEST_F(Page, ShowsARunWithoutMetrics) {
  put(run("r") / "log.txt",
      "2026-11-24 09:00:00.000 tessera 0.1.0 · run r\n"
      "2026-11-24 09:00:00.000 error: no space\n");
  const std::string text = page(std::vector{read_run(run("r"))}, {"0.1", std::nullopt});
  EXPECT_TRUE(has(text, "no space"));
  EXPECT_TRUE(data_of(text).find("runs")->as_list()->front().find("series")->as_members()->empty());
}

TEST_F(Page, ShowsWhatWasLeftOut) {
  const std::string text =
      page(std::vector{read("r", metrics(2) + "{damaged}\n")}, {"0.1", std::nullopt});
  EXPECT_TRUE(has(text, "metrics.jsonl:3:"));
  EXPECT_TRUE(has(text, "1 damaged line is left out"));
}

TEST_F(Page, ComparesRuns) {
  const std::vector<RunData> runs = {
      read("a/x", metrics(5), "run: { name: x }\nbatch: { micro: 4, global: 8 }\n"),
      read("b/x", metrics(6), "run: { name: y }\nbatch: { micro: 2, global: 8 }\nlora: 1\n"),
      read("c/z", metrics(7), "run: { name: z }\nbatch: { micro: 4, global: 8 }\n")};
  const std::string text = page(runs, {"0.1", std::nullopt});
  const std::string differences = differences_section(runs);
  EXPECT_TRUE(has(differences, "batch.micro"));
  EXPECT_TRUE(has(differences, "lora"));
  EXPECT_FALSE(has(differences, "batch.global"));
  EXPECT_FALSE(has(differences, "run.name"));
  // Two directories have the same name, so their paths tell them apart.
  EXPECT_TRUE(has(text, "a/x") && has(text, "b/x"));
  EXPECT_EQ(names_of(runs)[2], "z");
  EXPECT_EQ(data_of(text).find("runs")->as_list()->size(), 3u);
  EXPECT_TRUE(has(differences_section(std::vector{runs[0], runs[0]}), "are equal"));
}

TEST_F(Page, ShowsBitsPerByteAndTheNoiseScale) {
  const std::vector<RunData> runs = {read(
      "r", metrics(2) + R"({"step":3,"loss":1,"noise_scale":48.5})"
                        "\n"
                        R"({"step":3,"name":"wiki","validation_loss":3.25,"bits_per_byte":1.125})"
                        "\n")};
  EXPECT_TRUE(
      has(summary_section(runs), "<b>1.1250</b><span>validation bits per byte, wiki</span>"));
  const Tree data = parse_json(chart_data(runs), "data");
  const Tree& run = data.find("runs")->as_list()->front();
  EXPECT_EQ(to_json(*run.find("series")->find("noise_scale")), R"({"x":[3],"y":[48.5]})");
  std::string curves;
  for (const Tree& c : *run.find("curves")->as_list())
    curves += *c.find("kind")->as_string() + " " + to_json(*c.find("y")) + "; ";
  EXPECT_EQ(curves, "validation [3.25]; bits_per_byte [1.125]; ");
}

// Two starts, of which each measured its own rate: 4 and 2 TFLOP/s.
TEST_F(Page, TellsThatTheStartsMeasuredDifferentRates) {
  const auto lines = [](int64_t first, double share) {
    std::string text;
    for (int64_t s = first; s < first + 5; ++s)
      text += fmt::format("{{\"step\":{},\"model_flops_per_s\":1e12,\"model_flops_share\":{}}}\n",
                          s, share);
    return text;
  };
  put(run("r") / "log.txt",
      "2026-11-24 09:00:00.000 tessera 0.1.0 · run r\n"
      "2026-11-24 09:00:01.000 first step done 1.0 s after the start\n"
      "2026-11-24 09:10:00.000 tessera 0.1.0 · run r\n"
      "2026-11-24 09:10:00.100 resume    step 5 from runs/r/checkpoints/5 in 0.05 s\n"
      "2026-11-24 09:10:01.000 first step done 1.0 s after the start\n");
  const std::string differ = rates_section(std::vector{read("r", lines(1, 0.25) + lines(6, 0.5))});
  EXPECT_TRUE(has(differ, "matrix rates from 2 TFLOP/s to 4 TFLOP/s")) << differ;
  EXPECT_TRUE(
      has(differ, "2026-11-24 09:10:00</td><td class=\"n\">6</td><td class=\"n\">2 TFLOP/s</td>"))
      << differ;
  const std::string equal = rates_section(std::vector{read("r", lines(1, 0.25) + lines(6, 0.27))});
  EXPECT_FALSE(has(equal, "cannot be compared")) << equal;
  EXPECT_TRUE(has(equal, "4 TFLOP/s</td>")) << equal;
  const std::string one = rates_section(std::vector{read("r", lines(1, 0.25))});
  EXPECT_TRUE(has(one, "measured after the first step: 4 TFLOP/s")) << one;
  EXPECT_EQ(rates_section(std::vector{read("r", metrics(2))}), "");  // has no FLOP/s
}

TEST_F(Page, MarksAndRestartsAreThoseOfStartsThatTrained) {
  RunData r = read("r", metrics(2));
  r.log.starts.resize(1);
  r.log.events = {{EventKind::kStart, 2, "09:00", "nothing to do", false},
                  {EventKind::kError, 2, "09:01", "rejected", false},
                  {EventKind::kRestart, 1, "09:02", "resumed"}};
  const std::vector<RunData> runs = {r};
  EXPECT_TRUE(has(chart_data(runs), R"("events":[["restart",1]])")) << chart_data(runs);
  EXPECT_TRUE(has(summary_section(runs), "<b>1</b><span>restarts</span>"));
  EXPECT_TRUE(has(events_section(runs), "nothing to do"));
  EXPECT_TRUE(has(events_section(runs), "rejected"));
}

TEST_F(Page, ComparesPlannedAndMeasuredTime) {
  RunData r = read("r", metrics(2));
  Trace trace;
  trace.title = "step 8";
  trace.duration_s = 0.004;
  trace.ranks = {{0, {{"compute", {{Activity::kForward, 0, 0.003}}}}}};
  trace.ops = {{"matmul", 0.003, 0.0015, 1}, {std::string(kWaiting), 0.001, 0, 0}};
  r.trace = trace;
  const Planned planned{"h100",
                        0.002,
                        {{"matmul", 0.0015}, {"norm", 0.0005}},
                        "<svg><rect fill=\"#123456\"/></svg>",
                        {{"forward", "#123456"}, {"recomputation", "#654321"}}};
  const std::string section = time_section(std::vector{r}, planned);
  EXPECT_TRUE(
      has(section, "<td>matmul</td><td class=\"n\">1.50 ms</td><td class=\"n\">3.00 ms</td>"));
  EXPECT_TRUE(has(section, "75.0 %"));
  EXPECT_TRUE(has(section, "50.0 %"));  // of the matrix rate
  EXPECT_TRUE(has(section, "<td>norm</td><td class=\"n\">500.00 µs</td>"));
  EXPECT_TRUE(has(section, "simulated on h100"));
  EXPECT_TRUE(has(section, "rank 0"));
  EXPECT_TRUE(has(section, "style=\"background:#123456\"></i>forward"));
  EXPECT_FALSE(has(section, "#654321"));  // no bar has this color
  EXPECT_EQ(time_section(std::vector{read("s", metrics(2))}, std::nullopt), "");
}

TEST_F(Page, ComparesPlannedAndMeasuredMemory) {
  RunData r =
      read("r", "{\"step\":1,\"resident_bytes\":3145728}\n{\"step\":2,\"resident_bytes\":1}\n");
  r.log.memory.parts = {{"weights", 524288}};
  r.log.memory.arena = 1048576;
  r.log.memory.outside = 4194304;
  const std::string table = memory_table(std::vector{r});
  EXPECT_TRUE(has(table, "<td>weights</td><td class=\"n\">0.5 MiB</td><td class=\"n\">–</td>"));
  EXPECT_TRUE(has(table, "<td class=\"n\">5.0 MiB</td><td class=\"n\">3.0 MiB</td>"));
}

TEST_F(Page, ShowsTheMixture) {
  const RunData r = read("r", metrics(3),
                         "data:\n  train:\n    - prefix: wiki\n      weight: 3\n"
                         "    - prefix: <code>\n      weight: 1\n");
  const std::string section = data_section(std::vector{r});
  EXPECT_TRUE(has(section, "<td>wiki</td><td class=\"n\">75.0 %</td>"));
  EXPECT_TRUE(has(section, "<td>&lt;code&gt;</td><td class=\"n\">25.0 %</td>"));
}

}  // namespace
}  // namespace tessera::report
