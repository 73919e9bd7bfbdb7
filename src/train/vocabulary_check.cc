#include "train/vocabulary_check.h"

#include <set>

#include "data/dataset_about.h"
#include "data/tokenizer.h"
#include "data/vocabulary.h"

namespace tessera {

void require_vocabulary(const RunConfig& config, const Tokenizer& tokenizer,
                        const TrainingRows& rows, std::span<const ValidationSet> validation) {
  const int64_t vocabulary = config.model.vocabulary;
  if (rows.instructions()) {
    if (tokenizer.vocabulary_size() <= vocabulary) return;
    require_vocabulary(*rows.instructions(), vocabulary);
    for (const ValidationSet& set : validation)
      if (const InstructionData* data = set.data->instructions())
        require_vocabulary(*data, vocabulary);
    return;
  }
  std::set<std::string> prefixes;
  for (int i = 0; i < rows.datasets()->datasets(); ++i) prefixes.insert(rows.datasets()->prefix(i));
  for (const ValidationSource& source : config.data.validation) prefixes.insert(source.prefix);
  for (const std::string& prefix : prefixes) {
    const IndexedDataset data(prefix);
    const auto about = read_about(data);
    if (about && about->vocabulary > vocabulary) require_vocabulary(data, vocabulary);
  }
}

}  // namespace tessera
