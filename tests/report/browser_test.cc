// Opens reports in a real browser, without a display.
#include <sys/wait.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "report/page.h"
#include "report/plan_page.h"
#include "tests/report/plan_page.h"
#include "tests/report/run_folder.h"

namespace tessera::report {
namespace {

std::string output_of(const std::string& command, int* code = nullptr) {
  FILE* const pipe = popen(command.c_str(), "r");
  std::string out;
  char buffer[4096];
  for (size_t n = 0; (n = std::fread(buffer, 1, sizeof buffer, pipe)) > 0;) out.append(buffer, n);
  const int status = pclose(pipe);
  if (code) *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return out;
}

// Runs after the page's own script: changes the axis, returns to steps, and counts what is drawn.
constexpr const char* kProbe = R"(<script>
addEventListener('load', () => {
  const root = document.documentElement.dataset;
  root.ready = Math.round(performance.now());
  const axis = document.getElementById('axis');
  for (const value of axis ? ['tokens', 'time', 'step'] : []) {
    axis.value = value;
    axis.dispatchEvent(new Event('change'));
    if (value === 'time') root.timelabel = document.querySelector('.dygraph-xlabel')?.textContent;
  }
  document.getElementById('reset')?.click();
  const isDrawn = canvas => canvas.width > 0 &&
    canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data.some(v => v);
  const charts = [...document.querySelectorAll('.chart')];
  root.drawn = charts.filter(chart => [...chart.querySelectorAll('canvas')].some(isDrawn)).length;
  root.labels = charts.filter(chart => ['.dygraph-xlabel', '.dygraph-ylabel'].every(
    label => chart.querySelector(label)?.textContent)).length;
  const isRepeated = labels => new Set(labels.map(l => l.textContent)).size < labels.length;
  root.repeated = charts.filter(chart => ['x', 'y'].some(
    axis => isRepeated([...chart.querySelectorAll('.dygraph-axis-label-' + axis)]))).length;
  const textsOf = selector => [...document.querySelectorAll(selector)].map(n => n.textContent).join('; ');
  root.titles = textsOf('.chart h3');
  root.ylabels = textsOf('.dygraph-ylabel');
  root.xlabels = textsOf('.dygraph-xlabel');
  root.ticks = textsOf('.dygraph-axis-label-y');
  root.overflow = Math.max(0, document.documentElement.scrollWidth - innerWidth);
  root.background = getComputedStyle(document.body).backgroundColor;
  parent.postMessage({...root}, '*');
});
</script></body>)";

// A browser window cannot be as narrow as a phone, but a frame can.
constexpr const char* kPhone = R"(<!doctype html><body style="margin:0">
<iframe src="page.html" style="border:0;width:390px;height:844px"></iframe>
<script>onmessage = event => Object.assign(document.documentElement.dataset, event.data);</script>)";

struct Visit {
  int charts = 0, drawn = 0, labeled = 0, repeated = 0, ready_ms = 0, overflow = 0;
  std::string background, console, titles, x_labels, y_labels, ticks, time_label;
};

class Browser : public RunFolder {
 protected:
  void SetUp() override {
    program_ =
        output_of("command -v chromium || command -v chromium-browser || command -v google-chrome");
    if (program_.empty())
      GTEST_SKIP() << "no browser: install the Debian package chromium to run this test";
    program_.pop_back();
  }

  RunData synthetic(const std::string& name, const std::string& options) const {
    int code = -1;
    output_of(fmt::format("{} {}/scripts/synthetic_run.py {} {} 2>&1", TESSERA_PYTHON,
                          TESSERA_SOURCE, (folder_ / name).string(), options),
              &code);
    EXPECT_EQ(code, 0);
    return read_run(folder_ / name);
  }

  // Returns what the browser prints for --dump-dom, or nothing; its own messages are in
  // browser.log.
  std::string open(const std::string& flags, const std::string& opened) const {
    return output_of(fmt::format(
        "{} --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage "
        "--window-size=1280,900 --user-data-dir={}/profile --enable-logging=stderr --v=0 {} "
        "file://{} 2>{}/browser.log",
        program_, folder_.string(), flags, (folder_ / opened).string(), folder_.string()));
  }

  // Returns the page as a PDF.
  std::string printed(const std::string& page, const std::string& flags) const {
    put(folder_ / "page.html", page);
    const Path pdf = folder_ / "page.pdf";
    open(fmt::format("{} --print-to-pdf={}", flags, pdf.string()), "page.html");
    return read_file(pdf);
  }

  // Opens the page, or `opened`, which has it in a frame.
  Visit visit(std::string page, const std::string& flags = "",
              const std::string& opened = "page.html") const {
    page.replace(page.rfind("</body>"), 7, kProbe);
    put(folder_ / "page.html", page);
    const std::string html = open(flags + " --dump-dom", opened);
    Visit v;
    v.charts = number(html, "data-charts");
    v.drawn = number(html, "data-drawn");
    v.labeled = number(html, "data-labels");
    v.repeated = number(html, "data-repeated");
    v.ready_ms = number(html, "data-ready");
    v.overflow = number(html, "data-overflow");
    v.background = attribute(html, "data-background");
    v.titles = attribute(html, "data-titles");
    v.x_labels = attribute(html, "data-xlabels");
    v.y_labels = attribute(html, "data-ylabels");
    v.ticks = attribute(html, "data-ticks");
    v.time_label = attribute(html, "data-timelabel");
    const std::string text = read_file(folder_ / "browser.log"), mark = "CONSOLE";
    for (size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1))
      v.console += text.substr(at, text.find('\n', at) - at) + "\n";
    return v;
  }

 private:
  static std::string attribute(const std::string& html, const std::string& name) {
    const std::string start = name + "=\"";
    const size_t at = html.find(start);
    if (at == std::string::npos) return "";
    const size_t begin = at + start.size();
    return html.substr(begin, html.find('"', begin) - begin);
  }
  static int number(const std::string& html, const std::string& name) {
    const std::string text = attribute(html, name);
    int n = -1;
    std::from_chars(text.data(), text.data() + text.size(), n);
    return n;
  }

  std::string program_;
};

TEST_F(Browser, DrawsALongRunWithoutAnError) {
  const std::string text =
      page(std::vector{synthetic("long", "--steps 100000")}, {"0.1", std::nullopt});
  EXPECT_LT(text.size(), 3'000'000u);
  const Visit v = visit(text);
  EXPECT_EQ(v.console, "");
  EXPECT_EQ(v.charts, 13);
  EXPECT_EQ(v.drawn, v.charts);
  EXPECT_EQ(v.labeled, v.charts);
  EXPECT_GE(v.ready_ms, 0);
  // The time is printed and not tested: it depends on the machine and on other processes.
  fmt::print("{} bytes, charts ready after {} ms\n", text.size(), v.ready_ms);
}

TEST_F(Browser, ComparesFiveRuns) {
  std::vector<RunData> runs;
  for (int i = 1; i <= 5; ++i)
    runs.push_back(
        synthetic(fmt::format("run{}", i),
                  fmt::format("--steps {} --seed {} --learning-rate {}e-4", 1000 * i, i, i)));
  const Visit v = visit(page(runs, {"0.1", std::nullopt}));
  EXPECT_EQ(v.console, "");
  EXPECT_EQ(v.charts, 13);
  EXPECT_EQ(v.drawn, v.charts);
}

TEST_F(Browser, LabelsOfANarrowAxisDiffer) {
  RunData run = synthetic("flat", "--steps 500");
  for (double& loss : run.steps.values[Column::kLoss]) loss = 2.5 + 1e-5 * loss;
  const Visit v = visit(page(std::vector{run}, {"0.1", std::nullopt}));
  EXPECT_EQ(v.charts, 13);
  EXPECT_EQ(v.repeated, 0);
}

TEST_F(Browser, UnitsOfAxesFitTheirRange) {
  RunData run = synthetic("short", "--steps 60");
  run.steps.values[Column::kNoiseScale].assign(run.steps.step.size(), 3);
  for (double& rate : run.steps.values[Column::kLearningRate]) rate *= 1e23;
  for (double& bytes : run.steps.values[Column::kResidentBytes]) bytes = 3 << 20;
  const Visit v = visit(page(std::vector{run}, {"0.1", std::nullopt}));
  EXPECT_EQ(v.console, "");
  EXPECT_EQ(v.time_label, "training time (s)");
  EXPECT_NE(v.y_labels.find("; MiB"), std::string::npos) << v.y_labels;
  EXPECT_NE(v.y_labels.find("bits per byte"), std::string::npos) << v.y_labels;
  EXPECT_NE(v.titles.find("Gradient-noise scale"), std::string::npos) << v.titles;
  EXPECT_NE(v.ticks.find("e+1"), std::string::npos) << v.ticks;  // of the learning rate
  EXPECT_EQ(v.ticks.find("00000"), std::string::npos) << v.ticks;
  const Visit large =
      visit(page(std::vector{synthetic("long", "--steps 20000")}, {"0.1", std::nullopt}));
  EXPECT_EQ(large.time_label, "training time (h)");
  EXPECT_NE(large.y_labels.find("; GiB"), std::string::npos) << large.y_labels;
}

// Equal runs: the later line has gaps, and the earlier one is wider.
TEST_F(Browser, EqualCurvesAreBothVisible) {
  RunData run = synthetic("a", "--steps 300");
  std::vector<RunData> runs = {run, run};
  runs[1].name = "b";
  std::string text = page(runs, {"0.1", std::nullopt});
  const std::string script = R"(<script>addEventListener('load', () => {
    const plot = document.querySelector('.plot'), canvas = plot.querySelector('canvas');
    const area = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const hex = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const has = name => {
      const [r, g, b] = [1, 3, 5].map(i => parseInt(hex(name).slice(i, i + 2), 16));
      for (let i = 0; i < area.length; i += 4)
        if (area[i] === r && area[i + 1] === g && area[i + 2] === b && area[i + 3] === 255) return true;
      return false;
    };
    document.documentElement.dataset.titles = `${has('--run-0')} ${has('--run-1')}`;
  });</script></body>)";
  text.replace(text.rfind("</body>"), 7, script);
  put(folder_ / "page.html", text);
  EXPECT_NE(open("--dump-dom", "page.html").find("data-titles=\"true true\""), std::string::npos);
}

TEST_F(Browser, DrawsTheFiguresOfExperts) {
  const Visit v = visit(page(std::vector{synthetic("moe", "--steps 500 --experts")}, {"0.1", {}}));
  EXPECT_EQ(v.console, "");
  EXPECT_EQ(v.charts, 17);
  EXPECT_EQ(v.drawn, v.charts);
}

TEST_F(Browser, DrawsTheFiguresOfPreferences) {
  const RunData dpo = synthetic("dpo", "--steps 500 --preferences");
  const Visit v = visit(page(std::vector{dpo}, {"0.1", {}}));
  EXPECT_EQ(v.console, "");
  EXPECT_EQ(v.charts, 16);  // rewards, margin, accuracy, log-probabilities; no loss by dataset
  EXPECT_EQ(v.drawn, v.charts);
  EXPECT_EQ(v.labeled, v.charts);
  EXPECT_NE(v.titles.find("Pairs per second"), std::string::npos) << v.titles;
  EXPECT_EQ(v.titles.find("Tokens per second"), std::string::npos) << v.titles;
  EXPECT_NE(v.y_labels.find("loss (nats per pair)"), std::string::npos) << v.y_labels;
  EXPECT_EQ(v.y_labels.find("nats per token"), std::string::npos) << v.y_labels;
  // Next to a run that counts tokens, each unit has its charts.
  const Visit both =
      visit(page(std::vector{dpo, synthetic("sft", "--steps 500")}, {"0.1", std::nullopt}));
  EXPECT_EQ(both.console, "");
  EXPECT_EQ(both.drawn, both.charts);
  for (const char* title : {"Pairs per second", "Tokens per second"})
    EXPECT_NE(both.titles.find(title), std::string::npos) << both.titles;
  for (const char* label : {"nats per token", "nats per pair"})
    EXPECT_NE(both.y_labels.find(label), std::string::npos) << both.y_labels;
}

TEST_F(Browser, DrawsAPlan) {
  const std::string text = plan_page(sample_plan());
  const Visit v = visit(text);
  EXPECT_EQ(v.console, "");
  EXPECT_EQ(v.charts, 2);
  EXPECT_EQ(v.x_labels, "memory of the fullest rank (GiB); pipeline stage");
  EXPECT_EQ(v.y_labels, "step time (s); GiB");
  EXPECT_EQ(v.drawn, v.charts);
  EXPECT_EQ(v.labeled, v.charts);
  put(folder_ / "phone.html", kPhone);
  const Visit phone = visit(text, "", "phone.html");
  EXPECT_EQ(phone.drawn, 2);
  EXPECT_EQ(phone.overflow, 0);
  PlanPage single = sample_plan();  // one layout on one stage: tables only
  single.search.reset();
  single.stages.resize(1);
  const Visit plain = visit(plan_page(single));
  EXPECT_EQ(plain.console, "");
  EXPECT_EQ(plain.charts, 0);
}

TEST_F(Browser, FitsAPhoneAndFollowsTheColorScheme) {
  const std::string text = page(std::vector{synthetic("r", "--steps 500")}, {"0.1", std::nullopt});
  put(folder_ / "phone.html", kPhone);
  const Visit phone = visit(text, "", "phone.html");
  EXPECT_EQ(phone.drawn, 13);
  EXPECT_EQ(phone.overflow, 0);
  EXPECT_EQ(phone.console, "");
  EXPECT_EQ(phone.background, "rgb(255, 255, 255)");
  const Visit dark = visit(text, "--blink-settings=preferredColorScheme=0");
  EXPECT_EQ(dark.drawn, dark.charts);
  EXPECT_NE(dark.background, phone.background);
}

// Names of 100 characters without a space wrap in the legends, and the tables scroll.
TEST_F(Browser, LongNamesFitAPhone) {
  std::vector<RunData> runs = {synthetic("r", "--steps 500")};
  for (int i = 0; i < 6; ++i) {
    runs.push_back(runs.front());
    runs.back().name = std::string(99, 'x') + std::to_string(i);
  }
  put(folder_ / "phone.html", kPhone);
  const Visit phone = visit(page(runs, {"0.1", std::nullopt}), "", "phone.html");
  EXPECT_EQ(phone.console, "");
  EXPECT_EQ(phone.drawn, 13);
  EXPECT_EQ(phone.overflow, 0);
}

// The checks above fail if there is something to find.
TEST_F(Browser, NoticesErrorsAndRequests) {
  std::string text = page(std::vector{synthetic("r", "--steps 100")}, {"0.1", std::nullopt});
  const size_t end = text.rfind("</body>");
  std::string with_error = text, with_request = text;
  with_error.insert(end, "<script>absent();</script>");
  with_request.insert(end, "<img src=\"http://localhost:9/picture.png\">");
  EXPECT_NE(visit(with_error).console.find("absent is not defined"), std::string::npos);
  EXPECT_NE(visit(with_request).console.find("Content Security Policy"), std::string::npos);
}

// A chart without lines would be no image in the PDF.
TEST_F(Browser, PrintsItsCharts) {
  const std::string text = page(std::vector{synthetic("r", "--steps 500")}, {"0.1", std::nullopt});
  for (const char* scheme : {"0", "1"}) {
    const std::string pdf =
        printed(text, fmt::format("--blink-settings=preferredColorScheme={}", scheme));
    size_t images = 0;
    const std::string mark = "/Subtype /Image";
    for (size_t at = pdf.find(mark); at != std::string::npos; at = pdf.find(mark, at + 1)) ++images;
    EXPECT_GE(images, 11u);
  }
}

TEST_F(Browser, ShowsARunWithoutMetrics) {
  put(run("r") / "log.txt", "2026-11-24 09:00:00.000 error: no space\n");
  const Visit v = visit(page(std::vector{read_run(run("r"))}, {"0.1", std::nullopt}));
  EXPECT_EQ(v.console, "");
  EXPECT_EQ(v.charts, 0);
}

}  // namespace
}  // namespace tessera::report
