// Writes gradients and values of a run for debugging. What can be rejected is rejected before the
// run starts, because a dump happens after the first step.
#include "train/run_dumps.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.h"
#include "comm/agree.h"
#include "train/gradient_file.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// Makes the folder if it is missing.
void require_folder(const char* key, const Path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed)
    throw Error("{}: {}: cannot create the folder: {}. Choose another path.", key, folder.string(),
                failed.message());
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    throw Error("{}: {}: cannot be written to: {}. Choose another path.", key, folder.string(),
                std::strerror(errno));
}

}  // namespace

RunDumps::RunDumps(const RunConfig& config, World& world) : config_(config), world_(world) {
  const RunSection& run = config.run;
  if (!run.dump_values.empty()) require_folder("run.dump_values", run.dump_values);
  if (run.dump_gradients.empty()) return;
  const Path file = run.dump_gradients;
  if (file.extension() == ".safetensors" && world.size() > 1)
    throw Error(
        "run.dump_gradients = {}: the Hugging Face format is written by one rank only. Without "
        ".safetensors the gradients of any layout are written as a checkpoint.",
        file.string());
  require_place_for_gradients(file);
  require_folder("run.dump_gradients", file.has_parent_path() ? file.parent_path() : Path("."));
}

void RunDumps::begin(Trainer& trainer) {
  if (!config_.run.dump_values.empty())
    recorder_.emplace(trainer.program(), trainer.machine().position());
}

void RunDumps::after_step(Trainer& trainer, bool is_first) {
  if (is_first && !config_.run.dump_gradients.empty())
    write_gradients(config_.run.dump_gradients, trainer, config_.model,
                    {static_cast<int>(world_.rank()), static_cast<int>(world_.size()),
                     [this](const std::string& own) { require_no_error(world_, own); },
                     [this](std::string& text) { world_.broadcast(text, 0); }});
  if (recorder_) recorder_->finish(trainer.gradients(), trainer.state());
}

void RunDumps::finish() const {
  if (!recorder_) return;
  write_file(Path(config_.run.dump_values) / fmt::format("values-{}.txt", world_.rank()),
             to_text(recorder_->records()));
}

}  // namespace tessera
