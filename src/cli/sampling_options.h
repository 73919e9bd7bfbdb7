// The options of `generate`, `chat` and `serve` that choose the device, the slots and the sampling.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/arguments.h"
#include "comm/world.h"
#include "eval/batch_decoder.h"
#include "eval/sampling.h"

namespace tessera::cli {

// Adds --temperature, --top-k, --top-p, --min-p, --repetition-penalty, --frequency-penalty,
// --presence-penalty and --logit-bias.
class SamplingArguments {
 public:
  explicit SamplingArguments(Arguments& a);
  // Returns the options after parse(). Throws UsageError for a bias that is not ID=NUMBER, and
  // Error if an option is out of range.
  eval::SamplingOptions options() const;

 private:
  eval::SamplingOptions options_;
  std::vector<std::string> biases_;
};

// Adds --threads, --device and --precision.
class DeviceArguments {
 public:
  explicit DeviceArguments(Arguments& a);
  // Returns the options after parse(), with a GPU for this rank of `world` if there is one. Throws
  // UsageError for unknown values.
  eval::ModelOptions options(const comm::World& world) const;

 private:
  std::string device_ = "auto", precision_ = "fp32";
  int64_t threads_ = 0;
};

}  // namespace tessera::cli
