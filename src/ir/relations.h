// Relations between values and between frame kinds that the printed text does not have: the parser
// derives them from names. No other code does; passes set them.
#pragma once

#include "ir/program.h"

namespace tessera {

// Sets Value::copy and Value::of.
void set_origins(ValueVector& values);
// Sets FrameKind::input and FrameKind::factors_of.
void set_relations(Program& program);

}  // namespace tessera
