// The frame kinds of a group of weights, and which of the ranks that hold the
// same weight stands for all.
#pragma once

#include "ir/program.h"

namespace tessera {

// The flat kind of that role that belongs to a kind of weights: a rank's part of it if `divided`,
// else all of it. kNone where there is none. State on the host has two kinds: that of the host,
// which is returned, and that of the device, which has no contents between steps.
FrameKindId flat_kind(const Program& p, FrameKindId weights, Role role, bool divided);
// The factors that Adafactor keeps of a kind of weights, or kNone.
FrameKindId factors_of(const Program& p, FrameKindId weights);

// The first of the kind's stages, or that of all stages.
bool is_first_stage(const Program& p, const FrameKind& kind);
// Of the ranks of a stage that hold the same bytes of a weight, the first stands for all …
bool stands_in_stage(const Value& weight, const Coordinates& at);
// … and of the stages that hold it, the first.
bool stands_for(const Program& p, const FrameKind& weights, const Value& weight,
                const Coordinates& at);

}  // namespace tessera
