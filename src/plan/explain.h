// Prints a prediction as text for people and as JSON for scripts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/tree.h"
#include "compile/layout.h"
#include "plan/hardware.h"
#include "plan/prediction.h"
#include "plan/simulate.h"

namespace tessera::plan {

// Describes the planned run.
struct Subject {
  std::string model;        // "frontier-1t (128 layers × 25,600)"
  double token_budget = 0;  // tokens of the whole run; 0: not known
};

// Returns a page of text:
//
//   frontier-1t (128 layers × 25,600) on 3,072 MI250X-GCD   fits: 49.8 GiB of 62.7 GiB
//   step 41.20 s · 61 TFLOP/s per device (31.9 % of the 16-bit peak) · 1.19 M tokens/s · 20 T
//   tokens in 194 days
//     GEMMs            71 %  ▇▇▇▇▇▇▇▇▇▇▇▇▇▇
//     …
//   limited by: …
std::string page(const Prediction& p, const Hardware& hardware, const Subject& subject);

// Returns a JSON object: step_s, tokens_per_s, mfu, hfu, memory{…}, bubble,
// exposed_communication_s, usd_per_million_tokens and usd_per_device_hour (null if the price is not
// known), layout, and the breakdown of time, FLOPs and stages.
Tree as_tree(const Prediction& p, const Hardware& hardware, const compile::Layout& layout);

// Returns the factor that limits the step, as text: the matrix rate, or the largest part other than
// the GEMMs.
std::string limit_of(const Prediction& p, const Hardware& hardware);

// Returns the rate that MFU is a share of: "16-bit peak", also where layer GEMMs quantize their
// operands to FP8.
std::string peak_text(const Prediction& p);

// Returns the parts of the step by the names of the page, in seconds.
std::vector<std::pair<std::string, double>> named_parts(const Prediction& p);

bool fits(const Prediction& p, const Hardware& hardware);

// ---- A simulated step as an image: one row per stage with its calls over time (forward, backward,
// recomputation, messages and collectives, update), and below it the bytes in use of its arena.

// Returns a self-contained SVG; every bar has a tooltip. Adjacent calls of one kind and micro-batch
// are one bar.
std::string draw(const std::vector<Program>& stages, const Timeline& timeline);
// Returns the meaning of each color of draw(), and the color ("#4c8bf5").
std::vector<std::pair<std::string, std::string>> colors_of_draw();

}  // namespace tessera::plan
