// Counter-based random numbers (Salmon et al. 2011, Philox4x32-10). The same key and counter give
// the same four 32-bit words everywhere, so every random number of a run is keyed by its use and
// not by the rank that generates it.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace tessera {

using PhiloxBlock = std::array<uint32_t, 4>;

constexpr PhiloxBlock philox(std::array<uint32_t, 2> key, PhiloxBlock c) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53u} * c[0], b = uint64_t{0xCD9E8D57u} * c[2];
    c = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ key[0], static_cast<uint32_t>(b),
         static_cast<uint32_t>(a >> 32) ^ c[3] ^ key[1], static_cast<uint32_t>(a)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return c;
}

// Returns the 64-bit FNV-1a hash of a name: the key for one use of random numbers.
constexpr uint64_t hash_name(std::string_view s, uint64_t seed = 0) {
  uint64_t h = 0xcbf29ce484222325ull ^ (seed * 0x9E3779B97F4A7C15ull);
  for (const char ch : s) h = (h ^ static_cast<uint8_t>(ch)) * 0x100000001b3ull;
  return h;
}

// The random numbers of one use: `key` identifies the use, `index` the element.
struct Philox {
  uint64_t key = 0;

  constexpr PhiloxBlock block(uint64_t index, uint64_t lane = 0) const {
    return philox({static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32)},
                  {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
                   static_cast<uint32_t>(lane), static_cast<uint32_t>(lane >> 32)});
  }
  constexpr uint64_t word(uint64_t index) const {
    const PhiloxBlock b = block(index);
    return (uint64_t{b[0]} << 32) | b[1];
  }
  // Returns a number uniform in [0, 1), with 24 random bits.
  static constexpr float uniform(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }
  // Returns a standard normal number from two 32-bit words (Box-Muller).
  static double normal(uint32_t a, uint32_t b) {
    const double u = (a + 1.0) * 0x1p-32, v = b * 0x1p-32;
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
  }
};

}  // namespace tessera
