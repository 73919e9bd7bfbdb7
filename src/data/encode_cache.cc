#include "data/encode_cache.h"
