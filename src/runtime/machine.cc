#include "runtime/machine.h"

#include <algorithm>

#include "base/philox.h"
#include "kernels/cast.h"
#include "kernels/fill.h"
#include "runtime/initialise.h"

namespace tessera {
namespace {

int64_t largest(const std::vector<Program>& programs) {
  int64_t bytes = 0;
  for (const Program& p : programs) bytes = std::max(bytes, p.bytes);
  return bytes;
}

// State shared by name lies at the same place in both.
void check_agreement(const Program& a, const Program& b) {
  const std::vector<StatePiece> ours = pieces(a), theirs = pieces(b);
  for (const StatePiece& x : theirs)
    for (const StatePiece& y : ours) {
      if (x.name != y.name) continue;
      CHECK(a[y.value].offset == b[x.value].offset && a[y.value].dtype == b[x.value].dtype,
            "programs {} and {} disagree on {}", a.name, b.name, x.name);
    }
}

}  // namespace

Machine::Machine(std::vector<Program> programs, std::unique_ptr<Library> library,
                 MachineOptions options)
    : library_(std::move(library)),
      alone_(options.world ? nullptr : self_world()),
      channels_(options.world ? *options.world : *alone_, programs),
      arena_("arena", largest(programs)) {
  for (size_t i = 1; i < programs.size(); ++i) check_agreement(programs[0], programs[i]);
  for (Program& p : programs)
    executors_.push_back(
        std::make_unique<Executor>(std::move(p), arena_.data(), *library_, channels_,
                                   ExecutorOptions{options.poison, options.now_s}));
}

void Machine::initialise(uint64_t seed) {
  for (const StatePiece& piece : pieces(program())) {
    const Value& v = program()[piece.value];
    if (v.role == Role::kMoment1 || v.role == Role::kMoment2)
      kernels::clear(view(piece));
    else
      initialise_part(view(piece), v.shape, {piece.begin, piece.end}, v.initial,
                      hash_name(piece.name, seed));
  }
  round_weights();
}

void Machine::round_weights() {
  for (const StatePiece& piece : pieces(program()))
    if (piece.copy != kNone)
      kernels::cast(flat(view(piece)), flat(executors_[0]->view(piece.copy, piece.layer)));
}

}  // namespace tessera
