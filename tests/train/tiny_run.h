// A model that trains in milliseconds, on one rank.
#pragma once

#include <gtest/gtest.h>

#include <cmath>

#include "model/presets.h"
#include "tests/every_family.h"
#include "train/run_programs.h"
#include "train/trainer.h"

namespace tessera::train {

inline config::RunConfig tiny(model::Family family) {
  config::RunConfig c;
  model::apply_family(family, c.model);
  c.model.layers = 2;
  c.model.hidden = 32;
  c.model.heads = 4;
  c.model.vocabulary = 96;
  c.model.vocabulary_multiple = 32;
  c.model.context = 24;
  c.model.tied_embeddings = family == model::Family::kGpt2;
  if (model::rule_of(family).supports_gqa) c.model.kv_heads = 2;
  // Norms after a sublayer divide by the size of its output. This is as large as in a model of the
  // published widths: 0.02 at a width of 2,500.
  if (family == model::Family::kOlmo2 || family == model::Family::kGemma2 ||
      family == model::Family::kGemma3)
    c.model.init_std = 1 / std::sqrt(32.0);
  if (model::rule_of(family).has_encoder) {
    c.model.encoder_layers = 2;
    c.data.target_length = 12;
  }
  model::derive_sizes(c.model);
  c.data.sequence_length = 24;
  c.batch.global = 4;
  c.batch.micro = 2;
  c.precision = compile::Precision::kFp32;
  c.run.seed = 5;
  return c;
}

// Pairs for an encoder and a decoder, the end of each source padded.
inline data::BatchSource pair_batches(const config::RunConfig& c, data::BatchShape shape) {
  shape.source_length = c.data.sequence_length;
  shape.sequence_length = c.data.target_length;
  return data::BatchSource(shape, [](int64_t sample, const data::SampleRow& row) {
    const auto id = [&](size_t place) {
      return static_cast<int32_t>((sample * 31 + static_cast<int64_t>(place * place) * 7) % 95 + 1);
    };
    for (size_t s = 0; s < row.source.size(); ++s)
      row.source[s] = s + 1 + static_cast<size_t>(sample % 5) < row.source.size() ? id(s) : 0;
    for (size_t t = 0; t < row.labels.size(); ++t) {
      row.labels[t] = id(t + 40);
      row.tokens[t] = t == 0 ? 0 : row.labels[t - 1];
      row.positions[t] = static_cast<int32_t>(t);
      row.documents[t] = 0;
    }
  });
}

// The batches of a rank along the data axis. Any function of (sample, place) that is not constant
// will do as text. With intra_document_masking, a row holds two documents.
inline data::BatchSource batches(const config::RunConfig& c, int64_t data_rank = 0) {
  const data::BatchShape shape = config::batch_shape(c, data_rank);
  if (c.model.encoder_layers > 0) return pair_batches(c, shape);
  const bool masked = c.data.intra_document_masking;
  return data::BatchSource(shape, [masked](int64_t sample, const data::SampleRow& row) {
    std::vector<int32_t> ids(row.tokens.size() + 1);
    for (size_t t = 0; t < ids.size(); ++t)
      ids[t] = static_cast<int32_t>((sample * 31 + static_cast<int64_t>(t * t) * 7 + 3) % 96);
    data::fill_row(ids, row);
    const size_t second = masked ? 5 + static_cast<size_t>(sample % 7) : row.tokens.size();
    for (size_t t = second; t < row.tokens.size(); ++t) {
      row.positions[t] = static_cast<int32_t>(t - second);
      row.documents[t] = 1;
    }
    if (masked) row.labels[second - 1] = data::kIgnoredLabel;
  });
}

struct Curve {
  std::vector<double> losses, norms;
};

// The first steps of a trainer that has not begun.
inline Curve curve_of(Trainer& trainer, const config::RunConfig& c, int steps) {
  trainer.initialize();
  data::BatchSource source = batches(c);
  Curve out;
  for (int s = 1; s <= steps; ++s) {
    const StepResult r = trainer.step(s, 1e-3, source);
    EXPECT_TRUE(r.finite);
    out.losses.push_back(r.loss);
    out.norms.push_back(r.grad_norm);
  }
  return out;
}

inline Curve run(const config::RunConfig& c, int steps = 3) {
  const auto world = comm::self_world();
  Trainer trainer(c, std::make_unique<runtime::PreparedKernels>(read_cpu_features(), 2), INT64_MAX,
                  *world, {});
  return curve_of(trainer, c, steps);
}

inline void expect_same(const Curve& a, const Curve& b, double bound) {
  for (size_t i = 0; i < a.losses.size(); ++i) {
    EXPECT_NEAR(a.losses[i], b.losses[i], bound * a.losses[i]) << "step " << i + 1;
    EXPECT_NEAR(a.norms[i], b.norms[i], 10 * bound * a.norms[i]) << "step " << i + 1;
  }
}

}  // namespace tessera::train
