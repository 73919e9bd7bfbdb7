// Matches the data sources of a run with those in a stored position: first by name, then by
// content, so that a renamed dataset continues at its own position.
#include "data/data_position.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::data {

int64_t continued_sample(const SourcePosition& saved, bool same_order, int64_t epoch_samples) {
  if (same_order) return saved.samples;
  // An epoch that has begun counts as read: its order cannot be reproduced now, so its remaining
  // samples are unknown.
  const int64_t each = std::max<int64_t>(saved.epoch_samples, 1);
  const int64_t begun = saved.samples / each + (saved.samples % each > 0 ? 1 : 0);
  return begun * epoch_samples;
}

const SourcePosition* find_source(const DataPosition& saved, const std::string& name,
                                  const std::string& identity,
                                  const std::vector<std::string>& names) {
  const auto has = [&](const std::string& other) {
    return std::find(names.begin(), names.end(), other) != names.end();
  };
  for (const SourcePosition& s : saved.sources)
    if (s.name == name) return &s;
  for (const SourcePosition& s : saved.sources)
    if (!s.identity.empty() && s.identity == identity && !has(s.name)) return &s;
  return nullptr;
}

void require_same_source(const SourcePosition& saved, const std::string& identity) {
  if (saved.identity.empty() || saved.identity == identity) return;
  throw Error(
      "{}: the checkpoint was trained on other data under this name.\n  then: {}\n  now:  {}\n  "
      "Restore the data, give the run a directory of its own (run.directory), or set "
      "checkpoint.allow_changes=true to continue with the changed data from the start of an epoch",
      saved.name, saved.identity, identity);
}

}  // namespace tessera::data
