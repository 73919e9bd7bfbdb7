#include "cli/trained_data.h"

#include <algorithm>

#include "base/config.h"
#include "base/error.h"
#include "config/chat_section.h"

namespace tessera::cli {
namespace {

void read_chat_as_trained(const Tree& config, config::ChatSection& chat) {
  for (const Field& f : fields_of(chat)) {
    if (f.path == "chat_template" || f.path == "allow_other_template") continue;
    if (const Tree* const value = find_key(config, "data", f.path.c_str())) f.read(*value, {});
  }
}

}  // namespace

const Tree* find_key(const Tree& config, const char* section, const char* key) {
  const Tree* const of = config.as_members() != nullptr ? config.find(section) : nullptr;
  return of != nullptr && of->as_members() != nullptr ? of->find(key) : nullptr;
}

int64_t sample_length(int64_t asked, const checkpoint::CheckpointReader& reader,
                      const model::ModelConfig& model) {
  if (asked > model.context)
    throw Error("--sequence-length is {}, which exceeds the model's context of {}.", asked,
                model.context);
  if (asked > 0) return asked;
  int64_t length = 0;
  take_value(reader.header().config, "data", "sequence_length", length);
  return length > 0 ? std::min(length, model.context) : model.context;
}

config::RunConfig run_on_examples(const ExampleOptions& options,
                                  const checkpoint::CheckpointReader& reader,
                                  const model::ModelConfig& model) {
  config::RunConfig config;
  config.model = model;
  config.checkpoint.from = reader.folder().string();
  config.data.instructions = {options.file};
  config.data.sequence_length = options.length;
  read_chat_as_trained(reader.header().config, config.chat);
  config.data.long_examples = options.long_examples == "skip"       ? data::LongExamples::kSkip
                              : options.long_examples == "truncate" ? data::LongExamples::kTruncate
                                                                    : data::LongExamples::kError;
  return config;
}

}  // namespace tessera::cli
