// `tessera plan --html`: collects the figures of the page (report/plan_page.h).
#pragma once

#include <vector>

#include "cli/plan_search.h"
#include "plan/explain.h"
#include "report/plan_page.h"

namespace tessera::cli {

// Describes a predicted step of the programs of all stages.
report::PlanPage page_of_step(const plan::Subject& subject, const std::vector<Program>& stages,
                              const plan::Prediction& p, const plan::Hardware& hardware,
                              const plan::Software& software);

// Describes the layouts that a search simulated and left out.
report::SearchedLayouts searched_layouts(const LayoutSearchRun& searched);

}  // namespace tessera::cli
