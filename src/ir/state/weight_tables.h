// The buffer kinds of a group of weights, and the rank that represents all ranks with the same
// weight.
#pragma once

#include "ir/program.h"

namespace tessera {

// Returns the flat kind with that role that belongs to a kind of weights: this rank's shard if
// `divided`, else the whole; kNone if there is none. State on the host has two kinds: the host's,
// which is returned, and the device's, which has no contents between steps.
BufferKindId flat_kind(const Program& p, BufferKindId weights, Role role, bool divided);
// Returns Adafactor's factors of a kind of weights, or kNone.
BufferKindId factors_of(const Program& p, BufferKindId weights);

// Returns true on the first of the kind's stages, or the first of all stages if the kind lists
// none.
bool is_first_stage(const Program& p, const BufferKind& kind);
// Returns true on the first of the ranks of a stage that hold the same bytes of a weight …
bool stands_in_stage(const Value& weight, const Coordinates& at);
// … and of the stages that hold it, on the first one.
bool stands_for(const Program& p, const BufferKind& weights, const Value& weight,
                const Coordinates& at);

}  // namespace tessera
