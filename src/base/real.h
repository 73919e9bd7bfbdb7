// Integers as real numbers. A double holds all integers up to 2^53 (kExactIntegers); counts of
// bytes and operations beyond that are rounded, by less than 1e-15 of their size.
#pragma once

#include <concepts>
#include <cstdint>

namespace tessera {

// An integer that is divided, or divides, is a real number first.
template <class A, class B>
requires(std::integral<A> || std::integral<B>) constexpr double ratio(A a, B b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

// The product as a real number, which may be larger than any integer type holds. Factors are
// multiplied in the order in which they are written.
template <class... Factors>
requires(sizeof...(Factors) > 1) constexpr double real_product(Factors... factors) {
  return (1.0 * ... * static_cast<double>(factors));
}

// Times are whole nanoseconds where they are added and compared, seconds where they are shown.
constexpr double seconds_of(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace tessera
