// Prints one line for each program of a fixed corpus: its name and a checksum of its text. The
// corpus has all recipes, 200 sampled layouts of tiny dense models and 60 of models with experts.
// The test `compile.program_corpus` compares the lines with golden/program_corpus.txt, so that a
// change that should not change any program shows that it does not.
//
//   program_corpus            all lines
//   program_corpus NAME       the text of one program, to compare with that of another build
#include <algorithm>

#include "base/file.h"
#include "checkpoint/checksum.h"
#include "compile/compile.h"
#include "ir/print.h"
#include "tests/compile/random_layout.h"
#include "train/load_run.h"
#include "train/run_programs.h"

namespace tessera::compile {
namespace {

constexpr int kLayouts = 200, kExpertLayouts = 60;
constexpr uint64_t kSeed = 4100;

struct NamedRequest {
  std::string name;
  CompileRequest request;
};

const char* name_of(ProgramKind kind) {
  switch (kind) {
    case ProgramKind::kTrain:
      return "train";
    case ProgramKind::kValidate:
      return "validate";
    case ProgramKind::kLogits:
      return "logits";
    case ProgramKind::kDecode:
      return "decode";
  }
  return "";
}

bool one_rank(const CompileRequest& r) { return mesh_of(r.layout).ranks() == 1; }

// Programs of generation are compiled for one rank only.
void add_kinds(const std::string& name, const CompileRequest& r, std::vector<NamedRequest>& all) {
  for (const ProgramKind kind :
       {ProgramKind::kTrain, ProgramKind::kValidate, ProgramKind::kLogits, ProgramKind::kDecode}) {
    const bool generates = kind == ProgramKind::kLogits || kind == ProgramKind::kDecode;
    if (generates && !one_rank(r)) continue;
    CompileRequest of_kind = r;
    of_kind.kind = kind;
    if (kind != ProgramKind::kTrain) of_kind.microbatches = 1;
    if (generates) of_kind.adapters = {};
    all.push_back({fmt::format("{}.{}", name, name_of(kind)), of_kind});
  }
}

std::vector<NamedRequest> corpus() {
  std::vector<NamedRequest> all;
  std::vector<Path> recipes;
  for (const auto& entry : std::filesystem::directory_iterator(TESSERA_RECIPES))
    recipes.push_back(entry.path());
  std::sort(recipes.begin(), recipes.end());
  for (const Path& path : recipes) {
    config::RunConfig c = train::load_run(path, {});
    c.precision = c.precision == Precision::kAuto ? Precision::kBf16 : c.precision;
    train::resolve_sizes(c);
    all.push_back(
        {path.stem().string() + ".train", config::compile_request(c, ProgramKind::kTrain)});
  }
  const auto add = [&](const char* name, int layouts, bool experts) {
    testing::LayoutDraw draw(kSeed, experts, families_by_experts(experts));
    for (int i = 0; i < layouts; ++i) {
      CompileRequest r = draw.request(16);
      r.groups.clear();  // the corpus is of runs with one optimizer
      add_kinds(fmt::format("{}{}", name, i), r, all);
    }
  };
  add("layout", kLayouts, false);
  add("experts", kExpertLayouts, true);
  return all;
}

// Stages of a long pipeline have similar programs: only the first two and the last are printed.
std::vector<size_t> shown_stages(size_t stages) {
  if (stages <= 3) {
    std::vector<size_t> all(stages);
    for (size_t i = 0; i < stages; ++i) all[i] = i;
    return all;
  }
  return {0, 1, stages - 1};
}

void print_all() {
  for (const NamedRequest& n : corpus()) {
    const std::vector<Program> stages = compile_stages(n.request, {});
    for (const size_t stage : shown_stages(stages.size())) {
      const std::string text = tessera::print(stages[stage]);
      fmt::print("{}.stage{} {:016x}\n", n.name, stage, checkpoint::checksum_of(text));
    }
  }
}

int print_one(const std::string& name) {
  for (const NamedRequest& n : corpus()) {
    if (!name.starts_with(n.name + ".stage")) continue;
    const size_t stage = std::stoul(name.substr(n.name.size() + 6));
    fmt::print("{}", tessera::print(compile_stages(n.request, {}).at(stage)));
    return 0;
  }
  fmt::print(stderr, "there is no program '{}' in the corpus\n", name);
  return 1;
}

}  // namespace
}  // namespace tessera::compile

int main(int argc, char** argv) {
  try {
    if (argc > 1) return tessera::compile::print_one(argv[1]);
    tessera::compile::print_all();
    return 0;
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
