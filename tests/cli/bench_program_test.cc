// `tessera bench` behind mpirun: the file that it writes is one that `tessera plan` reads.
#include <set>

#include "plan/hardware.h"
#include "tests/cli/program.h"

namespace tessera::cli {
namespace {

class BenchProgram : public ProgramFolder {
 protected:
  BenchProgram() {
    put("run.yaml",
        "model: { layers: 2, hidden: 64, heads: 4, vocabulary: 257, context: 64 }\n"
        "data: { tokenizer: t.json, train: [d], sequence_length: 64 }\n"
        "batch: { global: 4, micro: 1 }\n"
        "precision: fp32\n"
        "run: { directory: run, threads: 1 }\n");
  }

  Tree plan(const std::string& keys) const {
    const ProgramResult r = run("plan run.yaml --cluster two.yaml --json " + keys);
    EXPECT_EQ(r.code, 0) << r.out << r.err;
    return parse_json(r.out, "plan");
  }
};

double number(const Tree& tree, const std::string& key) {
  const Tree* found = tree.find(key);
  return found == nullptr ? -1 : std::get<double>(found->value);
}

TEST_F(BenchProgram, TwoRanksWriteAFileWithLinksThatPlanReads) {
  const ProgramResult r = run("bench --rough --threads 1 --out two.yaml",
                              "OMP_NUM_THREADS=1 mpirun --allow-run-as-root --oversubscribe "
                              "--bind-to none -n 2");
  ASSERT_EQ(r.code, 0) << r.out << r.err;
  EXPECT_NE(r.out.find("2 ranks × 1 thread at the same time"), std::string::npos) << r.out;
  EXPECT_NE(r.out.find("links within a host: "), std::string::npos) << r.out;
  const plan::Hardware h = plan::load_hardware(folder_ / "two.yaml");
  EXPECT_EQ(h.node.devices, 2);
  EXPECT_TRUE(h.node.by_processor);
  EXPECT_EQ(h.device.kind, plan::DeviceKind::kCpu);
  std::set<std::string> types, kinds;
  for (const plan::MeasuredProduct& p : h.device.products)
    types.insert(p.type), kinds.insert(p.kind);
  EXPECT_EQ(types, (std::set<std::string>{"bf16", "f32"}));
  EXPECT_EQ(kinds, (std::set<std::string>{"forward", "input gradient", "weight gradient"}));
  for (const char* op : {"attention.f32", "attention_grad.bf16", "linear_cross_entropy.f32"})
    EXPECT_TRUE(h.device.op_flops_per_s.contains(op)) << op;

  const Tree one = plan(""), two = plan("layout.data=2");
  EXPECT_EQ(number(one, "exposed_communication_s"), 0);
  EXPECT_GT(number(two, "exposed_communication_s"), 0);
  EXPECT_GT(number(two, "step_s"), 0);
}

TEST_F(BenchProgram, WhatItCanNotDoIsToldBeforeItMeasures) {
  for (const char* wrong : {"bench --threads -1", "bench --quick --rough",
                            "bench --out nowhere/two.yaml", "bench extra"}) {
    const ProgramResult r = run(wrong);
    EXPECT_NE(r.code, 0) << wrong;
    EXPECT_EQ(r.out.find("memory: read"), std::string::npos) << wrong << r.out;
  }
}

}  // namespace
}  // namespace tessera::cli
