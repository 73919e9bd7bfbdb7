// `tessera plan --search`: the fastest layouts of a run on a machine.
#pragma once

#include "config/run_config.h"
#include "ir/target.h"
#include "plan/search.h"

namespace tessera::cli {

// The keys of a run file that give this layout.
std::string keys_of(const plan::Candidate& c);

// What a search asks of a run whose precision and sizes are resolved.
plan::SearchRequest search_request(const config::RunConfig& config, const plan::Software& software,
                                   int64_t devices);

// The run in the fastest layout for so many ranks on the machine of `layout.cluster`, if it asks
// for one (`layout.search: true`); else as it is. `overrides`: those it was opened with. Every rank
// finds the same. Throws Error where nothing fits.
config::RunConfig with_found_layout(const std::string& run, std::vector<std::string> overrides,
                                    config::RunConfig config, int64_t ranks, bool small);

// Searches and prints: a page for people, or one JSON object. Throws Error where nothing fits.
void search_layouts(const plan::SearchRequest& request, const Target& target,
                    const plan::Hardware& hardware, const plan::Software& software, bool json);

}  // namespace tessera::cli
