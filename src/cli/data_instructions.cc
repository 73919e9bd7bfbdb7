// Shows the rows of instruction data: which examples are packed in a row, and which tokens have a
// loss. The rows are made by the class that training uses (TrainingRows), so that what is shown is
// what the model sees, after the chat template, truncation and packing.
#include "cli/data_instructions.h"

#include "cli/arguments.h"
#include "cli/row_tree.h"
#include "cli/show.h"
#include "data/tokenizer.h"
#include "train/origin.h"
#include "train/run_data.h"
#include "train/run_programs.h"

namespace tessera {
namespace {

// Returns the text of an example with [ and ] around the tokens that have a loss. Each run of
// tokens is decoded at once: a character may be divided between tokens.
std::string marked(const Tokenizer& tokenizer, const InstructionData& data, int64_t example) {
  const auto ids = data.ids(example);
  const auto learned = data.learned(example);
  std::string text;
  for (size_t from = 0, to = 0; from < ids.size(); from = to) {
    while (to < ids.size() && learned[to] == learned[from]) ++to;
    const std::string part = tokenizer.decode(ids.subspan(from, to - from));
    text += learned[from] != 0 ? "[" + part + "]" : part;
  }
  return text;
}

Tree as_tree(const Tokenizer& tokenizer, const InstructionData& data, int64_t example) {
  Tree t;
  t.set("place", Tree(data.place(example)));
  t.set("tokens", list_of(data.ids(example)));
  t.set("learned", list_of(data.learned(example)));
  t.set("text", Tree(tokenizer.decode(data.ids(example))));
  return t;
}

Tree show_sample(const Tokenizer& tokenizer, TrainingRows& rows, int64_t sample, bool json) {
  const InstructionData& data = *rows.instructions();
  Tree t, examples = Tree::list();
  t.set("sample", Tree(sample));
  if (!json) fmt::print("sample {}\n", sample);
  for (const int32_t example : data.row_examples(sample)) {
    if (json)
      examples.push(as_tree(tokenizer, data, example));
    else
      show("  {}, {} tokens:\n{}\n", data.place(example), data.ids(example).size(),
           marked(tokenizer, data, example));
  }
  t.set("examples", std::move(examples));
  if (!json) return t;
  const Tree row = row_tree(rows, sample);
  for (const auto& [key, values] : *row.as_members()) t.set(key, values);
  return t;
}

}  // namespace

int explain_instructions(const RunConfig& run, std::optional<int64_t> step, int64_t sample,
                         bool json) {
  const int64_t steps = run.schedule.steps;
  if (step && (*step < 1 || *step > steps))
    throw UsageError("--step is {}, expected 1 to {}, the run's last", *step, steps);
  if (sample < 0) throw UsageError("--sample is {}, expected 0 or more", sample);
  const auto tokenizer = load_tokenizer(tokenizer_of_run(run));
  TrainingRows rows(run, tokenizer->vocabulary_size(), *tokenizer);
  const BatchShape shape = batch_shape(run, 0);
  const int64_t first = step ? shape.samples_before(*step - 1) : sample;
  const int64_t end = step ? shape.samples_before(*step) : sample + 1;
  Tree t, samples = Tree::list();
  t.set("data", to_tree(rows.instructions()->counts()));
  if (!json) fmt::print("{}\n", describe(rows.instructions()->counts()));
  for (int64_t s = first; s < end; ++s) samples.push(show_sample(*tokenizer, rows, s, json));
  t.set("samples", std::move(samples));
  if (json) fmt::print("{}\n", to_json(t));
  return 0;
}

}  // namespace tessera
