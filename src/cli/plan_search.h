// `tessera plan --search`: the fastest layouts of a run on a machine.
#pragma once

#include "plan/search.h"

namespace tessera {

// Searches and prints: a page for people, or one JSON object. Throws Error where nothing fits.
void search_layouts(const SearchRequest& request, const Target& target, const Hardware& hardware,
                    const Software& software, bool json);

}  // namespace tessera
