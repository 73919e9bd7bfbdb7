// The log-probabilities or scores of answers that a program with CompileRequest::keep_answer_sums
// leaves.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "comm/world.h"
#include "config/run_config.h"
#include "data/preferences.h"
#include "runtime/engine.h"
#include "train/batch_memory.h"

namespace tessera::train {

// The program of a run's engine that leaves the sums of answers under the present weights in the
// value `logits`, if the objective compares answers: the validation program.
constexpr size_t kAnswersProgram = 1;

// Returns the index of the program that leaves those under the reference model of dpo, ipo and kto.
// With the reference from the weights of the start, it is the same program.
size_t reference_program(const config::RunConfig& config);

// Returns true on the first of the ranks that compute the same sums.
bool owns_answers(const runtime::RankPosition& position);

// Returns the sums of the last run, [B, kAnswersPerRow, kAnswerColumns] for the rows of this rank.
// The rank must own them.
std::span<const double> answer_sums(const runtime::Executor& executor);

// Runs such a program over a set of pairs, in their order.
class AnswerPass {
 public:
  // `batch` has the batches of the programs of `engine`. `world` is null for one rank. All must
  // outlive the pass.
  AnswerPass(runtime::Engine& engine, size_t program, BatchMemory& batch,
             const data::PreferenceData& data, comm::World* world);

  // Returns the number of pairs that one run computes: one per row of all ranks.
  int64_t together() const { return together_; }
  // Returns the sums of the pairs from `first` on, at most together() and those below `end`,
  // [pairs, kAnswersPerRow, kAnswerColumns], on every rank. Collective.
  std::vector<double> run(int64_t first, int64_t end);

 private:
  runtime::Executor& executor_;
  const data::PreferenceData& data_;
  comm::World* world_;
  data::BatchView view_;
  int64_t together_ = 0, begin_ = 0;  // the first pair of this rank, from that of the run on
  bool owns_ = false;
};

// Returns the sums of the first `pairs` pairs. `on_progress` is called after each run with the
// number of pairs done. Collective.
std::vector<double> sums_of_pairs(AnswerPass& pass, int64_t pairs,
                                  const std::function<void(int64_t)>& on_progress);

// Sets z of kto in the batch of a program of `engine`: the mean over the global batch of the
// log-probabilities of answers to other prompts, minus the reference model's, or 0 if that is
// negative. No gradient passes through it, so it is computed before the step, with the same
// weights. Each row gets it in place of the reference of its second text. Does nothing for other
// objectives. Collective; `world` is null for one rank.
void estimate_kl(const config::RunConfig& config, runtime::Engine& engine, size_t program,
                 comm::World* world, BatchMemory& batch);

}  // namespace tessera::train
