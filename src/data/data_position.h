// The position of a run in its data, part of the state in its checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::data {

// One source of samples: a data set of the blend, or all instruction files together.
struct SourcePosition {
  std::string name;           // the prefix; of instructions their files
  std::string identity;       // what it holds, as text; empty: not known
  int64_t samples = 0;        // its next sample: those before are consumed
  int64_t before = 0;         // the same when the present blend began
  int64_t epoch_samples = 0;  // per epoch
  double weight = 0;          // in the present blend; 0: not part of it
  bool operator==(const SourcePosition&) const = default;
};

// The inputs of a source's order, other than its data.
struct SampleOrderKey {
  int64_t sample_tokens = 0;
  uint64_t seed = 0;
  std::string split;
  bool operator==(const SampleOrderKey&) const = default;
};

struct DataPosition {
  int64_t samples = 0;       // consumed by the run
  int64_t tokens = 0;        // the same in tokens of the data, which data.stages count
  int64_t blend_sample = 0;  // the run's sample with which the present blend began
  SampleOrderKey order;
  std::vector<SourcePosition> sources;
  bool operator==(const DataPosition&) const = default;
};

// Returns the sample with which a source continues: its next one if its data and order are
// unchanged (`same_order`), otherwise the first sample of the first epoch that was not begun, so
// that no part of an epoch is read twice.
int64_t continued_sample(const SourcePosition& saved, bool same_order, int64_t epoch_samples);

// Returns the saved position of a source: that of its name, otherwise one with its identity whose
// name is not in `names`. Returns nullptr for a new source.
const SourcePosition* find_source(const DataPosition& saved, const std::string& name,
                                  const std::string& identity,
                                  const std::vector<std::string>& names);

// Throws Error if `saved` is another data set under the same name: both identities, and what to do.
void require_same_source(const SourcePosition& saved, const std::string& identity);

}  // namespace tessera::data
