// Describes the training software that a plan assumes (configs/software/*.yaml): which fusions and
// overlaps it lacks, and the host time of its kernel launches.
//
// A plan compiles the program that this software would run: its `compiler` keys replace those of
// the run file. Tessera itself is described by tessera.yaml.
#pragma once

#include "base/config.h"
#include "base/file.h"
#include "compile/request.h"
#include "plan/hardware.h"

namespace tessera::plan {

// The default of Software::expert_imbalance: Wang et al. 2024 (arXiv:2408.15664, table 2)
// report 1.72 for a model of 1B parameters and 1.52 for one of 3B, both of 64 experts with an
// auxiliary loss.
constexpr double kExpertImbalance = 1.6;

// The number of kernels that the software launches for an op, by op name; each reads and writes the
// operands once. 0: the op is fused into an adjacent one. Ops that are not listed have 1.
struct KernelCounts : std::map<std::string, int64_t, std::less<>> {};

struct Software {
  std::string name;
  double launch_s = 0, step_s = 0, attention_share = 1;
  double expert_imbalance = kExpertImbalance;
  bool overlap_data = true, overlap_pipeline = true, overlap_tensor = true;
  bool split_messages = false, overlap_regather = false, hierarchical = true;
  KernelCounts kernels;
  compile::CompilerOptions compiler;
  SourceLocations places;  // the places of all keys that were given

  static void fields(auto& self, auto&& visit) {
    visit("name", self.name, "name of the software");
    visit("launch_s", self.launch_s, "host time of a kernel launch; overlaps the device's work");
    visit("step_s", self.step_s, "other host time per step, during which the device is idle");
    visit("attention_share", self.attention_share,
          "rate of its fused attention as a share of the machine's attention rate");
    visit("expert_imbalance", self.expert_imbalance,
          "load of the busiest expert / mean load (the metric busiest_expert), from which that of "
          "the "
          "busiest rank follows, if experts are divided among ranks");
    visit("overlap_data", self.overlap_data,
          "overlap gathers and reductions of weights and gradients with computation");
    visit("overlap_pipeline", self.overlap_pipeline,
          "overlap messages between stages with computation; else a sender waits for its transfer");
    visit("overlap_tensor", self.overlap_tensor,
          "overlap the collectives of a layer with its computation, with compiler.tp_comm_overlap "
          "and compiler.ep_comm_overlap");
    visit("split_messages", self.split_messages,
          "divide messages among the tensor ranks and gather the parts at the receiver");
    visit("overlap_regather", self.overlap_regather,
          "in a backward, overlap a repeated gather with the next GEMM");
    visit("hierarchical", self.hierarchical,
          "collectives over parts of nodes use the adapters of all members, as those over whole "
          "nodes do; else one adapter per node");
    visit("kernels", self.kernels, "number of kernels per op, by op name; 1 if not given");
    visit("compiler", self.compiler, "compiler options that replace those of the run file");
  }
};

// Throws Error with file, line and column, as load_hardware does.
Software load_software(const Path& path, std::span<const std::string> overrides = {});
Software read_software(const Tree& tree, const std::string& source,
                       std::span<const std::string> overrides = {});

// Returns the software as it behaves on that machine: if processors transfer messages, nothing
// overlaps.
Software on_machine(Software software, const Hardware& hardware);

// Returns the load of the busiest rank relative to the mean, if each rank has `own` of `experts`
// experts whose loads are independent and normally distributed, and the busiest expert has
// `imbalance` times the mean. The expected maximum of n such loads is σ √(2 ln n) above the mean,
// and a mean over `own` experts has σ / √own, so with P = experts / own ranks
//   1 + (imbalance − 1) √(ln P / (own · ln experts)),
// which is `imbalance` for one expert per rank, and at most P.
double busiest_rank(double imbalance, int64_t experts, int64_t own);

// Returns the request with the software's compiler options in place of the run's.
compile::CompileRequest as_compiled_by(const Software& software, compile::CompileRequest request);

void read_value(const Tree& tree, KernelCounts& value, const SourceLocation& place);
Tree write_value(const KernelCounts& x);
std::string type_name(const KernelCounts&);

}  // namespace tessera::plan
