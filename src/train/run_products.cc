#include "train/run_products.h"

#include <filesystem>

#include "base/file.h"
#include "compile/compile.h"
#include "train/run_programs.h"

namespace tessera {
namespace {

// Prepares every product of these programs: compiling asks for its workspace.
void prepare_products(PreparedKernels& kernels, const RunConfig& config) {
  for (const Purpose purpose : {Purpose::kTrain, Purpose::kValidate})
    compile_stages(compile_request(config, purpose), kernels.target());
}

}  // namespace

void share_products(PreparedKernels& kernels, const RunConfig& config, World& world,
                    const std::function<double()>& now_s,
                    const std::function<void(const std::string&)>& say) {
  if (!kernels.on_gpu() || config.run.products == ProductChoosing::kProposed) return;
  kernels.choose_attention(say);
  kernels::ProductChoices& choices = kernels.choices();
  std::string text;
  if (world.rank() == 0) {
    const Path file = Path(config.run.directory) / "products.txt";
    if (std::filesystem::exists(file))
      for (const std::string& fault : choices.read(read_file(file), file.string())) say(fault);
    const int64_t known = choices.size();
    const double began = now_s();
    kernels.measure_products(now_s);
    prepare_products(kernels, config);
    kernels.measure_products({});
    if (choices.changed()) write_file(file, choices.text());
    say(fmt::format("products  {} measured in {:.1f} s, {} known from {}", choices.size() - known,
                    now_s() - began, known, file.string()));
    if (const auto [all, by_library] = choices.attention_count(); all > 0)
      say(fmt::format("attention  {} of {} shapes by cuDNN, the others by our own kernels",
                      by_library, all));
    text = choices.text();
  }
  world.broadcast(text, 0);
  if (world.rank() != 0) choices.read(text, "what rank 0 chose");
}

}  // namespace tessera
