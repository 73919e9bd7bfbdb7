// The program that runs on the machine, as far as it is not the compiled one: which fusions and
// overlaps its passes leave out, and what a launch costs its host. configs/software/*.yaml.
//
// A plan compiles what the software would run: `compiler` keys replace those of the run file. What
// the machine's own program is stands in tessera.yaml.
#pragma once

#include "base/config.h"
#include "base/file.h"
#include "compile/request.h"
#include "plan/hardware.h"

namespace tessera::plan {

// How many kernels the software launches for an op of that name; each reads and writes the operands
// once. 0: it is part of its neighbour's. 1 where it is not named.
struct KernelCounts : std::map<std::string, int64_t, std::less<>> {};

struct Software {
  std::string name;
  double launch_s = 0, step_s = 0, attention_share = 1;
  double expert_imbalance = 1;
  bool overlap_data = true, overlap_pipeline = true, overlap_tensor = true;
  bool split_messages = false, overlap_regather = false, hierarchical = true;
  KernelCounts kernels;
  compile::CompilerOptions compiler;
  Places places;  // which of `compiler` were given

  static void fields(auto& self, auto&& visit) {
    visit("name", self.name, "of the software");
    visit("launch_s", self.launch_s, "host time of a kernel's launch; it runs beside the device");
    visit("step_s", self.step_s, "host time of a step beside its launches; nothing runs then");
    visit("attention_share", self.attention_share,
          "what its fused attention reaches of the machine's rate for that");
    visit("expert_imbalance", self.expert_imbalance,
          "load of the busiest rank / mean load, where experts are divided over ranks");
    visit("overlap_data", self.overlap_data,
          "gathers and reductions of weights and gradients run beside computation");
    visit("overlap_pipeline", self.overlap_pipeline,
          "so do messages between stages; else who sends waits for the transfer");
    visit("overlap_tensor", self.overlap_tensor,
          "so do collectives of tensor parallelism, with compiler.tp_comm_overlap");
    visit("split_messages", self.split_messages,
          "what all tensor ranks hold is sent in parts, one each, and gathered");
    visit("overlap_regather", self.overlap_regather,
          "in a backward, a gather that is done again runs beside the product after it");
    visit("hierarchical", self.hierarchical,
          "collectives over parts of nodes go through the adapters of all members, as those over "
          "whole nodes do; else through one of each node");
    visit("kernels", self.kernels, "kernels an op, by its name; 1 where none is given");
    visit("compiler", self.compiler, "options of the compiler that replace the run's");
  }
};

// Throws Error with file, line and column, as load_hardware does.
Software load_software(const Path& path, std::span<const std::string> overrides = {});
Software read_software(const Tree& tree, const std::string& source,
                       std::span<const std::string> overrides = {});

// What of it holds on that machine: where processors move messages nothing overlaps.
Software on_machine(Software software, const Hardware& hardware);

// The request with the software's options in place of the run's.
compile::CompileRequest as_compiled_by(const Software& software, compile::CompileRequest request);

void read_value(const Tree& tree, KernelCounts& value, const Place& place);
Tree write_value(const KernelCounts& x);
std::string type_name(const KernelCounts&);

}  // namespace tessera::plan
