// What a run file's `data` means: which samples are trained on, and which sets are validated on.
#pragma once

#include <string>
#include <vector>

#include "data/training_data.h"
#include "train/run_config.h"

namespace tessera {

// `vocabulary`: of the tokenizer; data with other ids is refused where it is read.
DatasetSpec training_spec(const RunConfig& config, int64_t vocabulary);

struct ValidationSpec {
  std::string name;
  DatasetSpec spec;  // of one dataset: for ValidationData
};

// The sets of data.validation, each as a whole; if there are none, the second part of data.split
// of each training set; if that is empty too, none.
std::vector<ValidationSpec> validation_specs(const RunConfig& config, int64_t vocabulary);

}  // namespace tessera
