// The log-probabilities of answers that a program with CompileRequest::keep_answer_sums leaves.
#pragma once

#include <span>

#include "comm/world.h"
#include "config/run_config.h"
#include "runtime/engine.h"
#include "train/batch_memory.h"

namespace tessera::train {

// Return the indices, among the programs of a run's engine, of those that leave the
// log-probabilities of answers in the value `logits`: under the reference model of dpo, ipo and
// kto, and under the present weights, for kto. Only runs with such an objective have them.
size_t reference_program(const config::RunConfig& config);
size_t answers_program(const config::RunConfig& config);

// Returns true on the first of the ranks that compute the same sums.
bool owns_answers(const runtime::RankPosition& position);

// Returns the sums of the last run, [B, kAnswersPerRow, kAnswerColumns] for the rows of this rank.
// The rank must own them.
std::span<const double> answer_sums(const runtime::Executor& executor);

// Sets z of kto in the batch of a program of `engine`: the mean over the global batch of the
// log-probabilities of answers to other prompts, less those of the reference model, or 0 if that is
// negative. No gradient passes through it, so it is computed before the step, with the same
// weights. Each row gets it in place of the reference of its second text. Does nothing for other
// objectives. Collective; `world` is null for one rank.
void estimate_kl(const config::RunConfig& config, runtime::Engine& engine, size_t program,
                 comm::World* world, BatchMemory& batch);

}  // namespace tessera::train
