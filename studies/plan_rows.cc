// plan_rows RUN CLUSTER SOFTWARE ROWS [--json]
//
// Predicts many rows of a table at once, as `tessera plan` does one: compiles each row's run once
// and simulates it as often as it is asked. ROWS is a text file with a row a line, the keys that
// replace those of RUN ("layout.tensor=8 batch.micro=4"), and of SOFTWARE
// ("software.compiler.attention=unfused").
//
//   --json     one object a row, what `tessera plan --json` prints
//   otherwise  reads lines of figures from standard input ("device.matrix_efficiency=0.8
//              software.launch_s=3e-5 …") and prints the step times of all rows, a line each
#include <fmt/format.h>

#include <iostream>
#include <sstream>

#include "base/tree.h"
#include "cli/run_file.h"
#include "compile/compile.h"
#include "plan/explain.h"
#include "plan/predict.h"
#include "plan/simulate.h"
#include "train/run_programs.h"

namespace tessera {
namespace {

std::vector<std::string> words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> out;
  for (std::string w; in >> w;) out.push_back(w);
  return out;
}

// Takes what starts with "software." out of `all`, without that.
std::vector<std::string> take_facts(std::vector<std::string>& all) {
  constexpr std::string_view kSoftware = "software.";
  std::vector<std::string> facts, rest;
  for (const std::string& w : all)
    if (w.starts_with(kSoftware))
      facts.push_back(w.substr(kSoftware.size()));
    else
      rest.push_back(w);
  all = std::move(rest);
  return facts;
}

struct Row {
  compile::CompileRequest request;
  std::vector<Program> stages;
  std::vector<std::string> facts;  // of the software, of this row
};

Row compile_row(const std::string& run, const std::string& line, const std::string& program) {
  std::vector<std::string> keys = words(line);
  const std::vector<std::string> facts = take_facts(keys);
  const plan::Software software = plan::load_software(program, facts);
  config::RunConfig config = cli::open_run(run, keys);
  if (config.precision == compile::Precision::kAuto) config.precision = compile::Precision::kBf16;
  train::resolve_sizes(config);
  Row row;
  row.facts = facts;
  row.request =
      plan::as_compiled_by(software, config::compile_request(config, compile::ProgramKind::kTrain));
  row.stages = compile::compile_stages(row.request, plan::cluster_target());
  return row;
}

void answer(const std::vector<Row>& rows, const std::string& cluster, const std::string& software,
            const std::string& line) {
  std::vector<std::string> figures = words(line);
  const std::vector<std::string> asked = take_facts(figures);
  const plan::Hardware h = plan::load_hardware(cluster, figures);
  std::string out;
  for (const Row& row : rows) {
    std::vector<std::string> facts = row.facts;
    facts.insert(facts.end(), asked.begin(), asked.end());
    out += fmt::format("{:.9g} ",
                       plan::simulate(row.stages, h, plan::load_software(software, facts)).step_s);
  }
  fmt::print("{}\n", out);
  std::fflush(stdout);
}

int run(const std::vector<std::string>& args) {
  if (args.size() < 4) throw Error("usage: plan_rows RUN CLUSTER SOFTWARE ROWS [--json]");
  std::vector<Row> rows;
  std::istringstream lines(read_file(args[3]));
  const bool json = args.size() > 4;
  const plan::Hardware hardware = plan::load_hardware(args[1]);
  for (std::string line; std::getline(lines, line);) {
    Row row = compile_row(args[0], line, args[2]);
    if (json)
      fmt::print("{}\n",
                 to_json(plan::as_tree(
                     plan::simulate(row.stages, hardware, plan::load_software(args[2], row.facts)),
                     hardware, row.request.layout)));
    else
      rows.push_back(std::move(row));
  }
  if (json) return 0;
  for (std::string line; std::getline(std::cin, line);) answer(rows, args[1], args[2], line);
  return 0;
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  try {
    return tessera::run({argv + 1, argv + argc});
  } catch (const tessera::Error& e) {
    fmt::print(stderr, "plan_rows: {}\n", e.what());
    return 1;
  }
}
