// The name of the weight [1, hidden] that replaces the LM head of a reward model.
#pragma once

#include <string_view>

namespace tessera::model {

inline constexpr std::string_view kScoreHead = "head.score.weight";

}  // namespace tessera::model
