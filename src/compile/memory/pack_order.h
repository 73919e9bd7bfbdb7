// In which order lives are placed (pack.h): what comes first finds the most room.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "compile/memory/life.h"

namespace tessera {

// The most bytes first, the most bytes × positions, the earliest, the longest.
enum class PackOrder { kSize, kArea, kBirth, kLength };
inline constexpr std::array kPackOrders = {PackOrder::kSize, PackOrder::kArea, PackOrder::kBirth,
                                           PackOrder::kLength};

// Indices of lives; where the order does not tell two apart, the larger comes first.
std::vector<size_t> ordered(const std::vector<Life>& lives, PackOrder by);

}  // namespace tessera
