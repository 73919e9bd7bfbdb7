#include "cli/checkpoint_file.h"

#include "base/error.h"
#include "cli/arguments.h"
#include "tensor/cpu_features.h"
#include "train/run_section.h"

namespace tessera {

std::unique_ptr<Tokenizer> tokenizer_of(const CheckpointReader& checkpoint) {
  if (checkpoint.header().tokenizer.empty())
    throw Error(
        "{} holds no tokenizer. Put the model's tokenizer.json into the Hugging Face folder "
        "and import it again.",
        checkpoint.folder().string());
  return load_tokenizer(checkpoint.folder());
}

int threads_or_all(int64_t asked) {
  if (asked < 0 || asked > kMostThreads)
    throw UsageError("--threads is {}, wanted 0 (all cores) to {}", asked, kMostThreads);
  return asked > 0 ? static_cast<int>(asked) : read_cpu_features().cores;
}

}  // namespace tessera
