// `tessera plan --search`: finds the fastest layouts of a run on a machine.
#pragma once

#include "config/run_config.h"
#include "ir/target.h"
#include "plan/search.h"

namespace tessera::cli {

// Returns the run-file keys of this layout, as key=value separated by spaces.
std::string keys_of(const plan::Candidate& c);

// Returns the search request for a run whose precision and sizes are resolved. Contexts are those
// up to layout.context, or, if that is larger, to one rank per 4,096 tokens of a sequence.
plan::SearchRequest search_request(const config::RunConfig& config, const plan::Software& software,
                                   int64_t devices);

// Returns the run with the fastest layout for `ranks` ranks on the machine `layout.cluster` if
// `layout.search` is true, otherwise the unchanged run. `overrides` are those that the run was
// opened with. All ranks find the same layout. Throws Error if none fits.
config::RunConfig with_found_layout(const std::string& run, std::vector<std::string> overrides,
                                    config::RunConfig config, int64_t ranks, bool small);

struct LayoutSearchRun {
  plan::SearchResult result;
  double seconds = 0;  // CPU time of the search
};

// Searches, and prints a page for people or one JSON object. Throws Error if no layout fits.
LayoutSearchRun search_layouts(const plan::SearchRequest& request, const Target& target,
                               const plan::Hardware& hardware, const plan::Software& software,
                               bool json);

}  // namespace tessera::cli
