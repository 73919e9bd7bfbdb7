// Tiny runs that learn from pairs of answers.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.h"
#include "config/run_request.h"
#include "data/preferences.h"
#include "data/tokenizer.h"
#include "ir/ops/preference.h"
#include "model/presets.h"
#include "tests/byte_tokenizer.h"
#include "train/run_data.h"
#include "train/run_programs.h"
#include "train/trainer.h"

namespace tessera::testing {

inline constexpr std::array kObjectives = {
    config::ObjectiveKind::kDpo, config::ObjectiveKind::kIpo,   config::ObjectiveKind::kOrpo,
    config::ObjectiveKind::kKto, config::ObjectiveKind::kSimpo, config::ObjectiveKind::kReward};

inline config::RunConfig preference_run(config::ObjectiveKind kind) {
  config::RunConfig c;
  model::apply_family(model::Family::kLlama, c.model);
  c.model.layers = 4;
  c.model.hidden = 32;
  c.model.heads = 4;
  c.model.vocabulary = 96;
  c.model.vocabulary_multiple = 32;
  c.model.context = 24;
  c.model.tied_embeddings = false;
  model::derive_sizes(c.model);
  c.data.sequence_length = 24;
  c.data.intra_document_masking = true;
  c.objective.kind = kind;
  c.objective.beta = 0.3;
  c.batch.micro = 2;
  c.batch.global = 8;
  c.precision = compile::Precision::kFp32;
  c.run.seed = 5;
  return c;
}

// Two texts of 5 to 10 tokens per row, of which the last tokens are the answer.
inline data::BatchSource pair_batches(const config::RunConfig& c, int64_t rank) {
  data::BatchShape shape = config::batch_shape(c, rank);
  shape.references = data::kPreferenceFigures;
  const bool scores = c.objective.kind == config::ObjectiveKind::kReward;
  // The divergence that kto estimates is 0 if the texts are less likely than under the reference.
  const double second = c.objective.kind == config::ObjectiveKind::kKto ? -45 : -21;
  return data::BatchSource(shape, [scores, second](int64_t sample, const data::SampleRow& row) {
    data::clear_row(0, row);
    size_t at = 0;
    for (int32_t answer = 0; answer < 2; ++answer) {
      const int64_t length = 5 + (sample * 3 + answer * 2) % 6, prompt = 2 + sample % 2;
      const auto id = [&](int64_t t) {
        const int64_t own = t < prompt ? 0 : 17 * (answer + 1);
        return static_cast<int32_t>((sample * 31 + t * t * 7 + own) % 95 + 1);
      };
      for (int64_t t = 0; t < length; ++t, ++at) {
        row.tokens[at] = id(t);
        row.positions[at] = static_cast<int32_t>(t);
        row.documents[at] = answer;
        const bool counts = scores ? t + 1 == length : t + 1 >= prompt;
        if (!counts) continue;
        row.labels[at] = id(t + 1);
        row.answers[at] = answer;
      }
    }
    row.references[0] = -20 - static_cast<double>(sample % 3);
    row.references[1] = second + 0.5 * static_cast<double>(sample % 4);
    row.references[2] = static_cast<double>(sample % 2) * 0.5;
  });
}

// A run on pair_data(), whose tokens are bytes and the end of a text.
inline config::RunConfig run_on_bytes(config::ObjectiveKind kind) {
  config::RunConfig c = preference_run(kind);
  c.model.vocabulary = 257;
  model::derive_sizes(c.model);
  return c;
}

// Preference data of these lines, as the objective of the run uses it.
inline std::unique_ptr<data::PreferenceData> preference_data(const config::RunConfig& c,
                                                             const std::string& lines) {
  const Path file =
      std::filesystem::temp_directory_path() / fmt::format("tessera-pairs-{}.jsonl", ::getpid());
  write_file(file, lines);
  data::InstructionSpec spec;
  spec.files = {file.string()};
  spec.sequence_length = c.data.sequence_length;
  auto data = train::preference_data(c, spec, *data::make_tokenizer(byte_tokenizer(), "tokenizer"));
  std::filesystem::remove(file);
  return data;
}

// Eight pairs, or eight examples of kto, with log-probabilities under a reference model.
inline std::unique_ptr<data::PreferenceData> pair_data(const config::RunConfig& c) {
  const bool kto = c.objective.kind == config::ObjectiveKind::kKto;
  std::string lines;
  for (int i = 0; i < (kto ? 4 : 8); ++i)
    lines +=
        fmt::format(R"({{"prompt":"{}","chosen":"{}","rejected":"{}","margin":{}}})"
                    "\n",
                    std::string(1 + i % 3, static_cast<char>('a' + i)), std::string(1 + i % 4, 'x'),
                    std::string(1 + (i + 1) % 3, 'y'), 0.5 * (i % 2));
  auto data = preference_data(c, lines);
  std::vector<double> references;
  // The divergence that kto estimates is above 0 if the texts are likelier than this.
  for (int i = 0; i < 16; ++i) references.push_back((kto && i % 2 == 1 ? -40 : -15) - i % 5);
  data->set_references(references);
  return data;
}

// Steps on all pairs of the data, in their order.
inline data::BatchSource batches_of(const data::PreferenceData& data, const config::RunConfig& c,
                                    int64_t rank) {
  data::BatchShape shape = config::batch_shape(c, rank);
  shape.references = data::kPreferenceFigures;
  double tokens = 0;
  for (int64_t pair = 0; pair < data.pairs(); ++pair)
    tokens += static_cast<double>(data.chosen_tokens(pair));
  const bool weighs = c.objective.kind == config::ObjectiveKind::kOrpo;
  const double factor = static_cast<double>(data.pairs()) / tokens;
  return data::BatchSource(shape,
                           [&data, weighs, factor](int64_t sample, const data::SampleRow& row) {
                             data.read_pair(sample % data.pairs(), row);
                             if (weighs) row.references[kPairFigure] = factor;
                           });
}

}  // namespace tessera::testing
