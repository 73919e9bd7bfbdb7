// A page of a plan for tests: two stages and a search.
#pragma once

#include "report/plan_page.h"

namespace tessera::report {

inline PlanPage sample_plan() {
  const auto stage = [](double activations) {
    StageMemory s;
    s.parts = {{"weights", 2e9}, {"activations", activations}, {"outside the arena", 1e9}};
    s.peak = 3e9 + activations;
    return s;
  };
  PlanPage page;
  page.version = "0.1";
  page.title = "small";
  page.about = "8 devices on h100";
  page.facts = {{"step", "1.0 s"}, {"fits", "yes"}};
  page.step_s = 1;
  page.time = {{"GEMMs", 0.6}, {"bubble", 0.4}, {"host copies", 0}};
  page.stages = {stage(4e9), stage(2e9)};
  page.usable_bytes = 8e10;
  page.timeline_svg = "<svg viewBox=\"0 0 10 10\"><rect width=\"5\" height=\"5\"/></svg>";
  page.timeline_colors = {{"forward", "#4c8bf5"}};
  page.search = SearchedLayouts{{{"tensor 2", "layout.tensor=2", 1.0, 7e9, 0.4},
                                 {"tensor 4", "layout.tensor=4", 1.5, 9e9, 0.3},
                                 {"tensor 8", "layout.tensor=8", 2.0, 3e9, 0.2},
                                 {"data 8", "layout.data=8", 0.5, 2e10, 0.5}},
                                {{"need more memory", 12}, {"take longer", 0}},
                                "0.4 s"};
  return page;
}

}  // namespace tessera::report
