// Stores and reads the position of a run in its data.
//
// A position consists of the state of each source and the periods of batch sizes since the first
// step. Both are checked for consistency when they are read, because a wrong position would
// silently repeat or skip data. The limits keep samples times tokens within 63 bits everywhere.
#include "train/run_position.h"

#include <algorithm>

#include "base/config.h"
#include "base/error.h"
#include "base/tree.h"
#include "checkpoint/tree_fields.h"
#include "data/vocabulary.h"
#include "train/run_data.h"
#include "train/run_programs.h"

namespace tessera::train {
namespace {

constexpr int64_t kMost = int64_t{1} << 60;         // samples, tokens and steps
constexpr int64_t kMostEpochs = int64_t{1} << 20;   // epochs of a source
constexpr int64_t kMostCounted = int64_t{1} << 36;  // samples for which a blend is recounted

int64_t number(const Tree& object, std::string_view name, const std::string& source) {
  const int64_t n = checkpoint::integer_member(object, name, source);
  if (n < 0 || n > kMost)
    throw Error("{}: '{}' of the data position is {}, expected 0 to {}",
                checkpoint::place_of(source, object), name, n, kMost);
  return n;
}

double weight_of(const Tree& object, const std::string& source) {
  const Tree& weight = checkpoint::member(object, "weight", source);
  if (const std::optional<double> x = number_in(weight)) return *x;
  throw Error("{}: 'weight' is {}, expected a number", checkpoint::place_of(source, weight),
              kind_of(weight));
}

data::SourcePosition source_from_tree(const Tree& tree, const std::string& source) {
  data::SourcePosition s;
  s.name = checkpoint::text_member(tree, "name", source);
  s.identity = checkpoint::text_member(tree, "identity", source);
  s.samples = number(tree, "samples", source);
  s.before = number(tree, "before", source);
  s.epoch_samples = number(tree, "epoch_samples", source);
  s.weight = weight_of(tree, source);
  if (s.before > s.samples || s.epoch_samples < 1 || s.samples / s.epoch_samples > kMostEpochs)
    throw Error(
        "{}: '{}' is at sample {} with {} samples per epoch, and its blend began at sample {}: "
        "these numbers are inconsistent",
        checkpoint::place_of(source, tree), s.name, s.samples, s.epoch_samples, s.before);
  return s;
}

data::BatchPeriod period_from_tree(const Tree& tree, const std::string& source) {
  data::BatchPeriod p;
  p.step = number(tree, "step", source);
  p.sample = number(tree, "sample", source);
  p.tokens = number(tree, "tokens", source);
  p.row_tokens = number(tree, "row_tokens", source);
  p.global = number(tree, "global", source);
  p.ramp = checkpoint::extents_member(tree, "ramp", source);
  p.ramp_steps = number(tree, "ramp_steps", source);
  const bool ramps = p.ramp.empty() || p.ramp_steps > 0;
  for (const int64_t g : p.ramp)
    if (g < 1)
      throw Error("{}: 'ramp' contains a batch size of {}, expected 1 or more",
                  checkpoint::place_of(source, tree), g);
  if (!ramps)
    throw Error("{}: ramp_steps is 0, expected 1 or more", checkpoint::place_of(source, tree));
  return p;
}

// Returns true if the tokens of `steps` steps with the largest batch can be counted without
// overflow.
bool countable(const data::BatchPeriod& p, int64_t steps) {
  int64_t largest = p.global;
  for (const int64_t g : p.ramp) largest = std::max(largest, g);
  const auto each =
      static_cast<double>(largest) * static_cast<double>(std::max<int64_t>(p.row_tokens, 1));
  return static_cast<double>(std::max(steps, p.ramp_steps)) * each <= static_cast<double>(kMost);
}

// Checks that each period begins where the one before it ends, and that the last one reaches the
// position.
void check_batches(const RunPosition& p, const std::string& place) {
  const auto wrong = [&](int64_t step) {
    throw Error("{}: the batches of the data position are inconsistent at step {}", place, step);
  };
  data::BatchPeriod last;
  for (const data::BatchPeriod& b : p.batches) {
    const bool first = &b == p.batches.data();
    if (b.step > p.step || !countable(b, p.step)) wrong(b.step);
    if (first ? b.step != 0 || b.sample != 0 : b.step < last.step) wrong(b.step);
    if (!first && last.samples_before(b.step) != b.sample) wrong(b.step);
    last = b;
  }
  if (p.batches.empty() || last.samples_before(p.step) != p.data.samples) wrong(p.step);
}

// Checks that the samples of all sources in the present blend add up to the samples it has
// consumed.
void check_sources(const data::DataPosition& d, const std::string& place) {
  int64_t given = 0;
  for (const data::SourcePosition& s : d.sources)
    if (s.weight != 0 && given <= d.samples) given += s.samples - s.before;
  if (d.blend_sample <= d.samples && given == d.samples - d.blend_sample) return;
  throw Error(
      "{}: {} samples of the data are consumed, {} of them from the present blend, but its sources "
      "add up to {}",
      place, d.samples, d.samples - d.blend_sample, given);
}

// Derives the position from a checkpoint's own configuration, if its version stored none.
RunPosition derived_position(const checkpoint::CheckpointHeader& header,
                             const data::Tokenizer& tokenizer) {
  RunPosition p;
  p.step = header.step;
  // A global batch of 0 means that no sample is consumed. It is used for a checkpoint without
  // configuration, such as an imported one.
  p.batches.push_back({.global = 0});
  if (!header.config.as_members() || header.config.as_members()->empty()) return p;
  config::RunConfig old = config::read_run(header.config, "its configuration", {});
  resolve_sizes(old);
  TrainingRowReader rows(old, old.model.vocabulary, tokenizer);
  const data::BatchShape shape = with_row_lengths(config::batch_shape(old, 0), rows);
  // Recounting a blend of several sources takes time proportional to the samples.
  const int64_t most = rows.sources() > 1 ? kMostCounted : kMost;
  if (!countable(shape.period(), header.step) || shape.samples_before(header.step) > most)
    throw Error("step {} with a batch of {} has too many samples to count", header.step,
                shape.global);
  p = position_after(header.step, rows.position(shape.samples_before(header.step)), shape);
  for (data::SourcePosition& s : p.data.sources) s.identity.clear();  // unknown
  return p;
}

}  // namespace

RunPosition position_after(int64_t step, data::DataPosition data, const data::BatchShape& shape) {
  RunPosition p{step, std::move(data), shape.past};
  p.batches.push_back(shape.period());
  return p;
}

Tree to_tree(const RunPosition& position) {
  const data::DataPosition& d = position.data;
  Tree order, sources = Tree::list(), batches = Tree::list(), t;
  order.set("sample_tokens", Tree(d.order.sample_tokens));
  // A tree has only signed integers. The reader converts them back, which restores the bits of any
  // seed.
  order.set("seed", Tree(static_cast<int64_t>(d.order.seed)));
  order.set("split", Tree(d.order.split));
  for (const data::SourcePosition& s : d.sources) {
    Tree one;
    one.set("name", Tree(s.name));
    one.set("identity", Tree(s.identity));
    one.set("samples", Tree(s.samples));
    one.set("before", Tree(s.before));
    one.set("epoch_samples", Tree(s.epoch_samples));
    one.set("weight", Tree(s.weight));
    sources.push(std::move(one));
  }
  for (const data::BatchPeriod& b : position.batches) {
    Tree one;
    one.set("step", Tree(b.step));
    one.set("sample", Tree(b.sample));
    one.set("tokens", Tree(b.tokens));
    one.set("row_tokens", Tree(b.row_tokens));
    one.set("global", Tree(b.global));
    one.set("ramp", write_value(b.ramp));
    one.set("ramp_steps", Tree(b.ramp_steps));
    batches.push(std::move(one));
  }
  t.set("samples", Tree(d.samples));
  t.set("tokens", Tree(d.tokens));
  t.set("blend_sample", Tree(d.blend_sample));
  t.set("order", std::move(order));
  t.set("sources", std::move(sources));
  t.set("batches", std::move(batches));
  return t;
}

RunPosition position_from_tree(const Tree& tree, int64_t step, const std::string& source) {
  RunPosition p;
  p.step = step;
  p.data.samples = number(tree, "samples", source);
  p.data.tokens = number(tree, "tokens", source);
  p.data.blend_sample = number(tree, "blend_sample", source);
  const Tree& order = checkpoint::member(tree, "order", source);
  p.data.order.sample_tokens = number(order, "sample_tokens", source);
  p.data.order.seed = checkpoint::integer_member(order, "seed", source);
  p.data.order.split = checkpoint::text_member(order, "split", source);
  for (const Tree& s : checkpoint::list_member(tree, "sources", source))
    p.data.sources.push_back(source_from_tree(s, source));
  for (const Tree& b : checkpoint::list_member(tree, "batches", source))
    p.batches.push_back(period_from_tree(b, source));
  if (step < 0 || step > kMost)
    throw Error("{}: step {}, expected 0 to {}", checkpoint::place_of(source, tree), step, kMost);
  check_batches(p, checkpoint::place_of(source, tree));
  check_sources(p.data, checkpoint::place_of(source, tree));
  return p;
}

RunPosition position_of(const checkpoint::CheckpointHeader& header, const std::string& folder,
                        const data::Tokenizer& tokenizer) {
  const Tree* stored = header.state.as_members() ? header.state.find("data") : nullptr;
  if (stored) return position_from_tree(*stored, header.step, folder);
  try {
    return derived_position(header, tokenizer);
  } catch (const Error& e) {
    throw Error(
        "{}: it was saved by version {}, which did not store the position in the data, and the "
        "position cannot be derived from its configuration: {}",
        folder, header.version, e.what());
  }
}

// A period is a range of steps with one rule for batch sizes. If the rule is unchanged, the last
// period continues, so that all numbers equal those of an uninterrupted run. Otherwise a new period
// begins at the position. A batch-size warm-up follows the step of the run in both cases.
data::BatchShape resumed(data::BatchShape shape, const RunPosition& position) {
  CHECK(!position.batches.empty(), "a position without batches");
  data::BatchPeriod last = position.batches.back(), now = shape.period();
  shape.past = position.batches;
  // The periods are compared as if both had begun at the same point: only batch sizes and row
  // lengths matter.
  now.step = last.step;
  now.sample = last.sample;
  now.tokens = last.tokens;
  if (now == last) {  // unchanged
    shape.past.pop_back();
    now = last;
  } else {
    now.step = position.step;
    now.sample = position.data.samples;
    now.tokens = last.tokens_before(position.step);
  }
  shape.first_step = now.step;
  shape.first_sample = now.sample;
  shape.first_tokens = now.tokens;
  return shape;
}

void require_same_tokenizer(const config::RunConfig& config, const Path& checkpoint, bool resumes,
                            const data::Tokenizer& tokenizer) {
  if (config.checkpoint.allow_changes || (!resumes && config.data.allow_foreign_tokenizer)) return;
  const auto then = data::load_tokenizer(checkpoint);
  if (data::means_the_same(*then, tokenizer)) return;
  throw Error(
      "data.tokenizer: {} gives other tokens than the tokenizer in {}.\n  then: {} tokens, "
      "fingerprint {:016x}\n  now:  {} tokens, fingerprint {:016x}\n  {}",
      config.data.tokenizer, checkpoint.string(), then->vocabulary_size(), then->fingerprint(),
      tokenizer.vocabulary_size(), tokenizer.fingerprint(),
      resumes
          ? "Restore the tokenizer, give the run a directory of its own (run.directory), or set "
            "checkpoint.allow_changes=true"
          : "Remove data.tokenizer (the checkpoint's is then used), or set "
            "data.allow_foreign_tokenizer=true to train these weights for other tokens");
}

}  // namespace tessera::train
