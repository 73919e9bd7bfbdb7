// tessera data explain
#pragma once

#include "cli/verbs.h"

namespace tessera {

int data_explain(Args args);

}  // namespace tessera
