// The passes of compile() and their only order: compile(), `tessera compile --after`, the table in
// docs/passes.md and the tests all read this table.
#pragma once

#include <functional>
#include <span>
#include <string_view>

#include "compile/context.h"
#include "compile/state.h"

namespace tessera::compile {

struct Pass {
  std::string_view name;
  Level level;  // the level of the state after it
  bool (*when)(const Context& context);
  std::string_view condition;  // `when` as text, for the documentation
  void (*run)(State& state, const Context& context);
  Invariant leaves;  // checked by verify() after it
};

std::span<const Pass> all_passes();
// Passes that run once for all stages of the pipeline, and passes that run per stage.
std::span<const Pass> block_passes();
std::span<const Pass> stage_passes();
// Returns the passes up to the named one; none if there is no pass with that name.
std::span<const Pass> passes_through(std::string_view name);

// Called after each pass that ran.
using PassObserver = std::function<void(const Pass&, const State&)>;

// Runs the passes whose condition holds. Throws Error if a pass does not support the request.
void run_passes(State& state, const Context& context, std::span<const Pass> passes,
                const PassObserver& observe = {});

// Sets whether run_passes() verifies the state after each pass and stops at a fault. Debug builds
// turn it on, and so do tests.
void verify_after_each_pass(bool on);

// The input of the stage passes, shared by all stages.
struct CompiledBlocks {
  Context context;
  State state;  // after block_passes()
};

// Throw as compile() does. compile(r, t) is program_of(compile_blocks(r, t), r.stage).
CompiledBlocks compile_blocks(const CompileRequest& request, const Target& target);
Program program_of(const CompiledBlocks& blocks, int64_t stage);

}  // namespace tessera::compile
