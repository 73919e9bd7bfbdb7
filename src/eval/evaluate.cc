// Evaluates a task: rank r scores examples r, r + n, r + 2n, …, all ranks gather all scores as JSON
// text, and each computes the same metrics.
#include "eval/evaluate.h"

#include <algorithm>

#include "base/error.h"
#include "base/tree.h"
#include "comm/agree.h"
#include "eval/likelihood.h"

namespace tessera::eval {
namespace {

// Converts a score to JSON, in which the ranks exchange them.
Tree to_tree(const ExampleScore& s) {
  Tree log = Tree::list(), unconditional = Tree::list(), t;
  for (const double x : s.log) log.push(Tree(x));
  for (const double x : s.unconditional) unconditional.push(Tree(x));
  t.set("line", Tree(s.line));
  t.set("log", std::move(log));
  t.set("unconditional", std::move(unconditional));
  t.set("greedy", Tree(s.greedy));
  t.set("written", Tree(s.written));
  t.set("extracted", Tree(s.extracted));
  t.set("extracted_last", Tree(s.extracted_last));
  return t;
}

double number(const Tree& t) { return number_in(t).value(); }

ExampleScore from_tree(const Tree& t) {
  ExampleScore s;
  s.line = std::get<int64_t>(t.find("line")->value);
  for (const Tree& x : *t.find("log")->as_list()) s.log.push_back(number(x));
  for (const Tree& x : *t.find("unconditional")->as_list()) s.unconditional.push_back(number(x));
  s.greedy = std::get<bool>(t.find("greedy")->value);
  s.written = *t.find("written")->as_string();
  s.extracted = *t.find("extracted")->as_string();
  s.extracted_last = *t.find("extracted_last")->as_string();
  return s;
}

std::vector<ExampleScore> gather(comm::World& world, const std::vector<ExampleScore>& own) {
  Tree list = Tree::list();
  for (const ExampleScore& s : own) list.push(to_tree(s));
  std::vector<ExampleScore> all;
  for (const std::string& text : world.all_gather(to_json(list))) {
    const Tree scores = parse_json(text, "scores of a rank");
    for (const Tree& t : *scores.as_list()) all.push_back(from_tree(t));
  }
  // Each rank's examples are interleaved with the others'; sorting restores the order of the file.
  std::sort(all.begin(), all.end(),
            [](const ExampleScore& a, const ExampleScore& b) { return a.line < b.line; });
  return all;
}

// Returns the scores of examples from the likelihoods of their options, in the order in which
// score_options() asks for them.
std::vector<ExampleScore> scores_of(std::span<const Example> examples, bool unconditional,
                                    const std::vector<Likelihood>& found) {
  std::vector<ExampleScore> out;
  size_t at = 0;
  for (const Example& e : examples) {
    ExampleScore& s = out.emplace_back();
    s.line = e.line;
    s.greedy = found[at].greedy;
    for (size_t i = 0; i < e.options.size(); ++i) {
      s.log.push_back(found[at++].log);
      if (unconditional) s.unconditional.push_back(found[at++].log);
    }
  }
  return out;
}

ScoresOfAdapters score_options(checkpoint::CheckpointReader& checkpoint,
                               const AdapterList& adapters, const data::Tokenizer& tokenizer,
                               const TaskSpec& spec, std::span<const Example> examples,
                               const ModelOptions& options) {
  const SpecialTokenRules rules = text_rules(checkpoint, tokenizer);
  // One flat list for all examples, so that rows of similar length can be computed together.
  std::vector<Continuation> asked;
  const bool unconditional = spec.kind == TaskKind::kChoice && !spec.unconditional.empty();
  for (const Example& e : examples)
    for (const Option& o : e.options) {
      asked.push_back(encode_continuation(tokenizer, rules, o.context, o.response));
      if (unconditional)
        asked.push_back(encode_continuation(tokenizer, rules, spec.unconditional, o.response));
    }
  ScoresOfAdapters out;
  for (const std::vector<Likelihood>& found : likelihoods(checkpoint, adapters, asked, options))
    out.push_back(scores_of(examples, unconditional, found));
  return out;
}

ScoresOfAdapters score_examples(checkpoint::CheckpointReader& checkpoint,
                                const AdapterList& adapters, const data::Tokenizer& tokenizer,
                                const Task& task, std::span<const Example> own,
                                const ModelOptions& options) {
  try {
    return task.spec.kind == TaskKind::kExactMatch
               ? write_answers(checkpoint, adapters, tokenizer, task.spec, own, options)
               : score_options(checkpoint, adapters, tokenizer, task.spec, own, options);
  } catch (const NumericError& e) {
    throw NumericError("task {}: {}", task.name, e.what());
  } catch (const Error& e) {
    throw Error("task {}: {}", task.name, e.what());
  }
}

}  // namespace

std::vector<TaskResult> evaluate(checkpoint::CheckpointReader& checkpoint,
                                 const AdapterList& adapters, const data::Tokenizer& tokenizer,
                                 const Task& task, comm::World& world,
                                 const ModelOptions& options) {
  std::vector<TaskResult> results;
  const auto add = [&](std::vector<ExampleScore> examples) {
    TaskResult& r = results.emplace_back();
    r.metrics = metrics_of(task.spec, task.examples, examples);
    r.examples = std::move(examples);
  };
  if (options.world != nullptr) {
    // The ranks hold the model together, so all of them compute every example.
    for (std::vector<ExampleScore>& scores :
         score_examples(checkpoint, adapters, tokenizer, task, task.examples, options))
      add(std::move(scores));
    return results;
  }
  std::vector<Example> own;
  // Interleaved instead of one range per rank, so that a region of the file with long examples is
  // divided among all ranks.
  for (int64_t i = world.rank(); i < std::ssize(task.examples); i += world.size())
    own.push_back(task.examples[i]);
  ScoresOfAdapters all;
  // If one rank fails, all throw, so that none waits in the gather.
  comm::on_all(world,
               [&] { all = score_examples(checkpoint, adapters, tokenizer, task, own, options); });
  for (const std::vector<ExampleScore>& scores : all) add(gather(world, scores));
  return results;
}

}  // namespace tessera::eval
