// Validation during a run.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "comm/world.h"
#include "train/metrics.h"
#include "train/run_data.h"
#include "train/trainer.h"

namespace tessera::train {

class RunValidation {
 public:
  // Opens the sets and, on rank 0, counts their bytes of text for bits per byte. Throws Error for a
  // set that cannot be read or has ids beyond the vocabulary.
  RunValidation(const config::RunConfig& config, const data::Tokenizer& tokenizer,
                const comm::World& world);

  // Reports the progress of a validation: the name of the set, its samples done and their total.
  using OnProgress = std::function<void(const std::string& name, int64_t done, int64_t samples)>;

  // Returns one result per set, in the order of the sets. Throws the same SharedError on all ranks
  // if one of them could not read its rows. Collective.
  std::vector<ValidationMetrics> measure(Trainer& trainer, comm::World& world, int64_t step,
                                         const OnProgress& on_progress) const;

  const std::vector<ValidationSet>& sets() const { return sets_; }
  // Returns the sets of pairs of answers.
  std::vector<data::PreferenceData*> pairs() const;

 private:
  int64_t limit_;  // sequences per set; 0: all
  std::vector<ValidationSet> sets_;
  std::vector<double> text_bytes_;  // per set; 0 on ranks other than 0
};

}  // namespace tessera::train
