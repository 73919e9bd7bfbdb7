// Selects GEMM and attention algorithms by measurement on rank 0, and shares the selection with all
// ranks and later starts. Algorithms may round differently, so equal selections are needed for
// equal bits.
#include "train/run_products.h"

#include <filesystem>

#include "base/file.h"
#include "compile/compile.h"
#include "kernels/gpu_backend.h"
#include "train/run_programs.h"

namespace tessera::train {
namespace {

// Prepares all GEMMs of the run's programs. Compiling asks for the workspace of each one, which
// registers it.
void prepare_products(runtime::PreparedKernels& kernels, const config::RunConfig& config) {
  for (const compile::ProgramKind kind :
       {compile::ProgramKind::kTrain, compile::ProgramKind::kValidate})
    compile::compile_stages(config::compile_request(config, kind), kernels.target());
}

// Returns the file of the selection. One that an earlier version stored as products.txt gets its
// present name, so that a resumed run has the same bits.
Path selection_file(const Path& directory) {
  const Path file = directory / "kernel_selection.txt", old = directory / "products.txt";
  std::error_code error;
  if (!std::filesystem::exists(file, error) && std::filesystem::exists(old, error))
    std::filesystem::rename(old, file, error);
  return file;
}

}  // namespace

void share_products(runtime::PreparedKernels& kernels, const config::RunConfig& config,
                    comm::World& world, const std::function<double()>& now_s,
                    const std::function<void(const std::string&)>& say) {
  kernels::GpuBackend* const gpu = kernels.backend().gpu();
  if (gpu == nullptr || config.run.kernel_selection == config::KernelSelection::kHeuristic) return;
  gpu->choose_attention(say);
  kernels::KernelChoices& choices = gpu->choices();
  std::string text;
  if (world.rank() == 0) {
    const Path file = selection_file(config.run.directory);
    if (std::filesystem::exists(file))
      for (const std::string& fault : choices.read(read_file(file), file.string())) say(fault);
    const int64_t known = choices.size();
    const double began = now_s();
    // The first call enables measuring, the compilation then measures each GEMM, and the last call
    // disables it.
    gpu->measure_products(now_s);
    prepare_products(kernels, config);
    gpu->measure_products({});
    if (choices.changed()) write_file(file, choices.text());
    say(fmt::format("autotune  {} kernels measured in {:.1f} s, {} read from {}",
                    choices.size() - known, now_s() - began, known, file.string()));
    if (const auto [all, by_library] = choices.attention_count(); all > 0)
      say(fmt::format("attention {} of {} shapes use cuDNN, the others Tessera's kernels",
                      by_library, all));
    text = choices.text();
  }
  world.broadcast(text, 0);
  if (world.rank() != 0) choices.read(text, "selection of rank 0");
}

}  // namespace tessera::train
