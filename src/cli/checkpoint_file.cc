#include "cli/checkpoint_file.h"

#include "base/count.h"
#include "base/error.h"
#include "base/log.h"
#include "base/utf8.h"
#include "checkpoint/folders.h"
#include "checkpoint/hf_source.h"
#include "cli/rank.h"
#include "config/run_section.h"
#include "tensor/cpu_features.h"

namespace tessera::cli {

Path choose_checkpoint(const std::string& argument) {
  std::vector<std::string> skipped;
  const Path path = checkpoint::resolve_checkpoint(argument, &skipped);
  if (read_rank_info().rank > 0) return path;
  for (const std::string& broken : skipped)
    print_to(stderr, fmt::format("warning: a newer checkpoint is damaged and not used: {}\n",
                                 printable(broken)));
  if (!checkpoint::is_hf_folder(path))
    print_to(stderr, fmt::format("checkpoint {}, step {}\n", printable(path.string()),
                                 checkpoint::CheckpointReader(path).header().step));
  return path;
}

void add_weights(Arguments& arguments, std::string& weights) {
  arguments.option(weights, "--weights", "W",
                   "weights: trained, or ema for their exponential mean (optimizer.ema)");
}

bool is_average(const std::string& weights) {
  if (weights != "trained" && weights != "ema")
    throw UsageError("--weights is '{}', expected trained or ema", weights);
  return weights == "ema";
}

checkpoint::CheckpointReader open_checkpoint(const std::string& argument,
                                             const std::string& weights) {
  const bool averages = is_average(weights);
  checkpoint::CheckpointReader reader(choose_checkpoint(argument));
  if (averages) reader.use_averages();
  return reader;
}

checkpoint::OnTensor show_tensors(StatusLine& status, std::string verb) {
  return [&status, verb = std::move(verb)](int64_t done, int64_t all) {
    if (status.is_due())
      status.show(fmt::format("{}: {} of {} tensors", verb, format_count(done), format_count(all)));
  };
}

std::unique_ptr<data::Tokenizer> tokenizer_of(const checkpoint::CheckpointReader& checkpoint) {
  if (checkpoint.header().tokenizer.empty())
    throw Error(
        "{} has no tokenizer. Put the model's tokenizer.json into the Hugging Face folder and "
        "import it again.",
        checkpoint.folder().string());
  return data::load_tokenizer(checkpoint.folder());
}

int threads_or_all(int64_t asked) {
  if (asked < 0 || asked > config::kMostThreads)
    throw UsageError("--threads is {}, expected 0 (all cores) to {}", asked, config::kMostThreads);
  return asked > 0 ? static_cast<int>(asked) : read_cpu_features().cores;
}

}  // namespace tessera::cli
