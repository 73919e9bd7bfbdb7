// A command line that cannot be understood: exit code 2.
#pragma once

#include "base/error.h"

namespace tessera {

class UsageError : public Error {
  using Error::Error;
};

}  // namespace tessera
