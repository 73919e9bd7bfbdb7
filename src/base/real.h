// Division and multiplication of integers in doubles. A double represents all integers up to 2^53
// (kExactIntegers, base/range.h); larger counts of bytes and operations are rounded, with a
// relative error below 1e-15.
#pragma once

#include <concepts>
#include <cstdint>

namespace tessera {

// Returns a / b, computed in doubles.
template <class A, class B>
requires(std::integral<A> || std::integral<B>) constexpr double ratio(A a, B b) {
  return static_cast<double>(a) / static_cast<double>(b);
}

// Returns the product of the factors, which may exceed the range of any integer type. Factors are
// multiplied in the order in which they are written.
template <class... Factors>
requires(sizeof...(Factors) > 1) constexpr double real_product(Factors... factors) {
  return (1.0 * ... * static_cast<double>(factors));
}

// Returns a time in seconds. Times are added and compared in integer nanoseconds, and displayed in
// seconds.
constexpr double seconds_of(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

}  // namespace tessera
