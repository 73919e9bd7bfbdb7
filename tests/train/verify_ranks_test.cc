// What `tessera verify` compares: right layouts give no alarm, and wrong compilers are found, at
// the op that is wrong.
#include <gtest/gtest.h>

#include "tests/compile/random_layout.h"
#include "tests/train/verified_run.h"
#include "tests/train/wrong_compilers.h"

namespace tessera::testing {
namespace {

config::RunConfig config_of(const compile::CompileRequest& r) {
  config::RunConfig c;
  c.model = r.model;
  // Norms after a sublayer divide by the size of its output. This is as large as in a model of the
  // published widths: 0.02 at a width of 2,500.
  using enum model::Family;
  if (r.model.family == kOlmo2 || r.model.family == kGemma2 || r.model.family == kGemma3)
    c.model.init_std = 1 / std::sqrt(static_cast<double>(r.model.hidden));
  c.layout = r.layout;
  c.compiler = r.options;
  c.compiler.gemm_dtype = compile::GemmDType::kCompute;  // as verify runs them
  c.precision = r.precision;
  c.data.sequence_length = r.tokens;
  c.batch.micro = r.sequences;
  c.batch.global = r.sequences * r.layout.data * r.microbatches;
  // An update divides by it where a gradient is about zero, and so multiplies roundings.
  c.optimizer.epsilon = r.precision == compile::Precision::kFp32 ? 1e-4 : 1e-3;
  c.run.seed = 5;
  return c;
}

train::ValueComparison compared(const config::RunConfig& c, const train::RankRecords& one,
                                const std::vector<train::RankRecords>& all) {
  return train::compare_values(
      one, all, train::value_bounds(config::compile_request(c, compile::ProgramKind::kTrain)));
}

constexpr int kLayouts = 60, kFaults = 100;

void expect_no_alarm(LayoutDraw draw, int layouts) {
  std::map<std::string, double> largest;
  for (int done = 0; done < layouts;) {
    compile::CompileRequest r = draw.request(ranks().size());
    while (r.encoder_tokens > 0) r = draw.request(ranks().size());  // batches here are of one stack
    if (compile::mesh_of(r.layout).ranks() != ranks().size()) continue;
    ++done;
    // Rounding a score to 16 bits may choose another expert.
    if (r.model.experts > 0) r.precision = compile::Precision::kFp32;
    const config::RunConfig c = config_of(r);
    const std::vector<train::RankRecords> all = on_all_ranks(c, stages_of(c));
    if (ranks().rank() != 0) continue;
    const train::ValueComparison found = compared(c, on_one_rank(c), all);
    EXPECT_GT(found.compared, 50);
    if (found.first)
      ADD_FAILURE() << text_of(r) << "\n  " << found.first->told << " " << found.first->relative
                    << " " << found.first->ranks;
    double& most = largest[name_of_entry(c.precision)];
    most = std::max(most, found.largest);
  }
  for (const auto& [precision, share] : largest)
    fmt::print("{} right layouts; {}: at most {:.0f} % of the bound\n", layouts, precision,
               100 * share);
}

TEST(Verify, GivesNoFalseAlarm) { expect_no_alarm(LayoutDraw(7), kLayouts); }

// Value by value and gradient by gradient, the layouts of such a model equal one rank.
TEST(Verify, GivesNoFalseAlarmWithLayersOfSeveralKinds) {
  expect_no_alarm(LayoutDraw(8, true), kLayouts / 2);
}

// Four ranks in three layouts, with dropout, two layers a stage and three micro-batches.
config::RunConfig base(int which) {
  compile::CompileRequest r;
  model::apply_family(which == 1 ? model::Family::kGpt2 : model::Family::kNeox, r.model);
  r.model.layers = 4;
  r.model.hidden = 32;
  r.model.heads = 4;
  r.model.vocabulary = 96;
  r.model.vocabulary_multiple = 32;
  r.model.context = 16;
  r.model.dropout = 0.1;
  model::derive_sizes(r.model);
  r.sequences = 1;
  r.tokens = 16;
  r.microbatches = 3;
  r.layout.data = which == 1 ? 1 : 2;
  r.layout.tensor = which == 2 ? 1 : 2;
  r.layout.pipeline = which == 0 ? 1 : 2;
  r.layout.zero = which == 2 ? 3 : 1;
  return config_of(r);
}

// What a fault came to.
struct Verdict {
  bool changes = false, found = false, at_the_op = false;
  std::string told, shared_over;
};

// A layout with its right run, to try faults on.
class Bench {
 public:
  explicit Bench(int which) : config_(base(which)), stages_(stages_of(config_)) {
    right_ = on_all_ranks(config_, stages_);
    if (ranks().rank() == 0) one_ = on_one_rank(config_);
  }
  const std::vector<Program>& stages() const { return stages_; }

  // On rank 0; the others return nothing.
  Verdict try_fault(const std::vector<Program>& wrong, const Fault& fault) const {
    const std::vector<train::RankRecords> all = on_all_ranks(config_, wrong);
    Verdict v;
    if (ranks().rank() != 0) return v;
    v.changes = differs(all);
    const train::ValueComparison c = compared(config_, one_, all);
    v.found = c.first.has_value();
    if (!v.found) return v;
    v.told = c.first->told;
    v.shared_over = c.first->shared_over;
    v.at_the_op = shows(fault, c.first->told);
    return v;
  }

 private:
  // In what is left at the end: a rewrite that leaves it equal to the last bit is no fault.
  bool differs(const std::vector<train::RankRecords>& all) const {
    for (size_t r = 0; r < all.size(); ++r) {
      std::map<std::string, train::ValueDigest> kept;
      for (const train::ValueRecord& x : right_[r].records)
        if (is_kept(x.key)) kept[x.key] = x.digest;
      for (const train::ValueRecord& x : all[r].records)
        if (is_kept(x.key) && kept[x.key].sums != x.digest.sums) return true;
    }
    return false;
  }
  static bool is_kept(const std::string& key) {
    return key.find("|gradient|") != std::string::npos || key.find("|state|") != std::string::npos;
  }

  static bool shows(const Fault& fault, const std::string& told) {
    std::string name = told.substr(0, told.find(" ("));
    for (const std::string_view what : {"gradient of ", "state of "})
      if (name.starts_with(what)) {
        name = name.substr(what.size());
        if (fault.shows_in.contains("")) return true;  // of the update of all
      }
    name = WrongCompiler::without_numbers(name.substr(0, name.find('|')));
    const bool stream = name.find("hidden") != std::string::npos;
    return fault.shows_in.contains(name) || (stream && fault.shows_in.contains("~hidden"));
  }

  config::RunConfig config_;
  std::vector<Program> stages_;
  std::vector<train::RankRecords> right_;
  train::RankRecords one_;
};

TEST(Verify, FindsTheSixClassicFaults) {
  const Bench bench(0);
  std::vector<std::string> shared_over;
  const auto expect_found = [&](const std::function<Fault(std::vector<Program>&)>& rewrite) {
    std::vector<Program> wrong = bench.stages();
    const Fault fault = rewrite(wrong);
    const Verdict v = bench.try_fault(wrong, fault);
    if (ranks().rank() != 0) return;
    fmt::print("{}\n    first difference: {}\n", fault.what, v.told);
    EXPECT_TRUE(v.found && v.at_the_op) << fault.what << ": " << v.told;
    shared_over.push_back(v.shared_over);
  };
  WrongCompiler compiler(1);
  // A missing all-reduce of norm gains.
  expect_found([&](auto& p) { return compiler.drop_call(p, "finish.layer.tensor"); });
  // A gradient scaled twice.
  expect_found([&](std::vector<Program>& stages) {
    Fault f{"a gradient is scaled twice", {}};
    for (Program& p : stages)
      for (Segment& s : p.segments)
        if (s.name() == "reduce.layer") {
          WrongCompiler::show(p, s.ops[0], f);
          WrongCompiler::add_twice(s, 0);
        }
    return f;
  });
  // Dropout out of step.
  expect_found([&](auto& p) { return WrongCompiler::other_key(p); });
  // A wrong vocabulary offset.
  expect_found([&](auto& p) { return compiler.other_offset(p, "embed.weight"); });
  // A micro-batch skipped: another is computed twice.
  expect_found([&](auto& p) { return compiler.other_microbatch(p); });
  // A stale parameter.
  expect_found([&](auto& p) { return compiler.drop_call(p, "gather.layer"); });
  if (ranks().rank() == 0) {
    EXPECT_EQ(shared_over[0], "shard and tensor");
  }
}

TEST(Verify, FindsGeneratedFaults) {
  const Bench benches[] = {Bench(0), Bench(1), Bench(2)};
  WrongCompiler compiler(3);
  int tried = 0, found = 0, right_op = 0;
  for (int attempt = 0; tried < kFaults; ++attempt) {
    const Bench& bench = benches[attempt % 3];
    std::vector<Program> wrong = bench.stages();
    const Fault fault = compiler.rewrite(wrong);
    if (fault.what.empty()) continue;
    const Verdict v = bench.try_fault(wrong, fault);
    double counts = v.changes ? 1 : 0;  // rank 0 knows
    ranks().all_reduce({&counts, 1}, comm::Reduction::kMax);
    if (counts == 0) continue;
    ++tried;
    found += v.found;
    right_op += v.at_the_op;
    if (ranks().rank() == 0 && !v.at_the_op)
      fmt::print("{}: {}\n", fault.what, v.found ? "found as " + v.told : "not found");
  }
  if (ranks().rank() != 0) return;
  fmt::print("{} wrong compilers: {} found, {} at the op that is wrong\n", tried, found, right_op);
  EXPECT_GE(found, 95);
  EXPECT_GE(right_op, 90);
}

}  // namespace
}  // namespace tessera::testing
