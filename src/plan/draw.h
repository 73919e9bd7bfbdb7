// A simulated step as an image: a row a stage with its calls in time (forward, backward, what is
// done again, messages and collectives, update), and below it the bytes of its arena that are
// alive.
#pragma once

#include <string>

#include "plan/simulate.h"

namespace tessera {

// An SVG that stands alone; every bar names itself when pointed at. Neighbouring calls of one kind
// and micro-batch are one bar.
std::string draw(const std::vector<Program>& stages, const Timeline& timeline);

}  // namespace tessera
