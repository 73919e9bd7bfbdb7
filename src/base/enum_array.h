// Arrays with one entry per enumerator of an enumeration, and loops over enumerators. The
// enumerators are 0, 1, …, and count_of() next to the enumeration returns their number:
//
//   enum class Color : uint8_t { kRed, kGreen };
//   constexpr size_t count_of(Color) { return static_cast<size_t>(Color::kGreen) + 1; }
//   EnumArray<Color, int> used;                             // all 0
//   constexpr EnumArray<Color, const char*> kNames = {"red", "green"};
//   for (const Color c : Enumerators<Color>()) ++used[c];
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <optional>
#include <string_view>

#include "base/id.h"

namespace tessera {

template <class E, class T>
class EnumArray {
 public:
  static constexpr size_t kCount = count_of(E());

  constexpr EnumArray() = default;
  // The arguments are one entry per enumerator, in their order.
  template <class... U>
  requires(sizeof...(U) == kCount && kCount > 1) constexpr EnumArray(const U&... entries)
      : entries_{entries...} {}

  constexpr T& operator[](E e) { return entries_[index(e)]; }
  constexpr const T& operator[](E e) const { return entries_[index(e)]; }
  // Throws std::out_of_range for a value that is not an enumerator.
  constexpr const T& at(E e) const { return entries_.at(index(e)); }

  constexpr void fill(const T& entry) { entries_.fill(entry); }
  constexpr auto begin() { return entries_.begin(); }
  constexpr auto begin() const { return entries_.begin(); }
  constexpr auto end() { return entries_.end(); }
  constexpr auto end() const { return entries_.end(); }
  constexpr auto operator<=>(const EnumArray&) const = default;

 private:
  static constexpr size_t index(E e) { return static_cast<size_t>(e); }

  std::array<T, kCount> entries_{};
};

// The enumerators of E in increasing order, for range-based loops.
template <class E>
class Enumerators {
 public:
  using Iterator = NumberedIterator<E>;

  constexpr Iterator begin() const { return Iterator(0); }
  constexpr Iterator end() const { return Iterator(count_of(E())); }
};

// Returns the enumerator with that name, or nothing if there is none.
template <class E, class Name>
constexpr std::optional<E> enumerator_named(const EnumArray<E, Name>& names,
                                            std::string_view name) {
  for (const E e : Enumerators<E>())
    if (names[e] == name) return e;
  return std::nullopt;
}

}  // namespace tessera
