// Derives facts that the printed text omits: relations of values and frame kinds, attributes. Only
// the parser calls these, which has names, and the printer, which prints what they would not find;
// passes set the fields directly.
#pragma once

#include "ir/program.h"

namespace tessera {

// Sets Value::copy and Value::of.
void set_origins(ValueVector& values);
// Sets FrameKind::input and FrameKind::factors_of.
void set_relations(Program& program);
// Sets Sum::of_gradients.
void set_relations(Op& op);

}  // namespace tessera
