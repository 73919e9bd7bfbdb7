// The position of a run in its data, part of the state in its checkpoints.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::data {

// One source of samples: a dataset of the blend, or all instruction files together.
struct SourcePosition {
  std::string name;           // the prefix of the dataset, or the names of the instruction files
  std::string identity;       // description of the content as text; empty: unknown
  int64_t samples = 0;        // number of the next sample; all before it are consumed
  int64_t before = 0;         // value of `samples` when the current blend began
  int64_t epoch_samples = 0;  // samples per epoch
  double weight = 0;          // weight in the current blend; 0: not part of it
  bool operator==(const SourcePosition&) const = default;
};

// The inputs other than the data that determine the order of a source's samples.
struct SampleOrderKey {
  int64_t sample_tokens = 0;
  uint64_t seed = 0;
  std::string split;
  bool operator==(const SampleOrderKey&) const = default;
};

struct DataPosition {
  int64_t samples = 0;       // samples consumed by the run
  int64_t tokens = 0;        // consumed tokens of the data, the unit of data.stages
  int64_t blend_sample = 0;  // the run's sample at which the current blend began
  SampleOrderKey order;
  std::vector<SourcePosition> sources;
  bool operator==(const DataPosition&) const = default;
};

// Returns the sample with which a source continues: its next one if its data and order are
// unchanged (`same_order`), otherwise the first sample of the first epoch that had not begun, so
// that no part of an epoch is read twice.
int64_t continued_sample(const SourcePosition& saved, bool same_order, int64_t epoch_samples);

// Returns the saved position of a source: the one with its name, or else one with its identity
// whose name is not in `names`. Returns nullptr for a new source.
const SourcePosition* find_source(const DataPosition& saved, const std::string& name,
                                  const std::string& identity,
                                  const std::vector<std::string>& names);

// Throws Error with both identities if `saved` is another dataset under the same name.
void require_same_source(const SourcePosition& saved, const std::string& identity);

}  // namespace tessera::data
