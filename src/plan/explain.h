// A prediction in words, for people and for scripts.
#pragma once

#include <string>

#include "base/tree.h"
#include "compile/layout.h"
#include "plan/hardware.h"
#include "plan/prediction.h"
#include "plan/simulate.h"

namespace tessera::plan {

// What is planned, in the run's own words.
struct Subject {
  std::string model;        // "frontier-1t (128 layers × 25,600)"
  double token_budget = 0;  // of the whole run
};

// A page:
//
//   frontier-1t (128 layers × 25,600) on 3,072 MI250X-GCD   fits: 49.8 GiB of 62.7 GiB
//   step 41.20 s · 61 TFLOP/s per device (31.9 % of the 16-bit peak) · 1.19 M tokens/s · 20 T
//   tokens in 194 days
//     matrix products  71 %  ▇▇▇▇▇▇▇▇▇▇▇▇▇▇
//     …
//   limited by: …
std::string page(const Prediction& p, const Hardware& hardware, const Subject& subject);

// step_s, tokens_per_s, mfu, hfu, memory{…}, bubble, exposed_communication_s,
// usd_per_million_tokens (null where the price is not known), layout, and the parts of it.
Tree as_tree(const Prediction& p, const Hardware& hardware, const compile::Layout& layout);

// What takes most of the time beside the products, as a sentence.
std::string limit_of(const Prediction& p, const Hardware& hardware);

// Returns the rate that MFU is a share of: "16-bit peak", also where layer GEMMs quantize their
// operands to FP8.
std::string peak_text(const Prediction& p);

bool fits(const Prediction& p, const Hardware& hardware);

// ---- A simulated step as an image: a row per stage with its calls in time (forward, backward,
// what is done again, messages and collectives, update), and below it the bytes of its arena that
// are alive.

// A self-contained SVG; every bar has a tooltip. Neighboring calls of one kind
// and micro-batch are one bar.
std::string draw(const std::vector<Program>& stages, const Timeline& timeline);

}  // namespace tessera::plan
