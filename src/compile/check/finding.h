// A fault that check() found in a program.
#pragma once

#include <string>

#include "ir/program.h"

namespace tessera {

struct Finding {
  std::string kind;  // match | cycle | race | value
  std::string text;  // in the names of the model
  int rank = 0;      // index into what was given to check()
  CallId call = kNone;
};

}  // namespace tessera
