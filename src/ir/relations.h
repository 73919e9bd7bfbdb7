// Relations between values and between frame kinds, and attributes, that the printed text does not
// have: the parser derives them from names. No other code does; passes set them.
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
