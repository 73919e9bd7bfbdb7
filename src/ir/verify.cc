#include "ir/verify.h"
