// Typed ids. An id is an index into one kind of list: a ValueId indexes only values. It does not
// convert to other kinds of ids, and to or from a number only explicitly. IdVector and IdSpan are a
// std::vector and a std::span that can be indexed only by their own kind of id.
#pragma once

#include <fmt/format.h>

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

namespace tessera {

// The id of an entry of the lists that Tag identifies, or none: `using BufferId = Id<struct
// BufferTag>`. The none id converts to false, equals kNone and compares less than every other id.
template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  template <std::integral N>
  constexpr explicit Id(N number) : number_(static_cast<int32_t>(number)) {}

  constexpr explicit operator bool() const { return number_ >= 0; }
  constexpr int32_t number() const { return number_; }
  constexpr size_t index() const { return static_cast<size_t>(number_); }
  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  int32_t number_ = -1;
};

// The value of an id, or of an optional number such as a layer, that is not set.
struct None {
  constexpr operator int32_t() const { return -1; }
  template <class Tag>
  constexpr operator Id<Tag>() const {
    return {};
  }
};
inline constexpr None kNone;

// Iterates over the values of T for the numbers 0, 1, …: ids, or enumerators.
template <class T>
class NumberedIterator {
 public:
  using value_type = T;
  using difference_type = std::ptrdiff_t;
  using reference = T;
  using pointer = const T*;
  using iterator_category = std::input_iterator_tag;

  constexpr NumberedIterator() = default;
  constexpr explicit NumberedIterator(size_t at) : at_(at) {}
  constexpr T operator*() const { return static_cast<T>(at_); }
  constexpr NumberedIterator& operator++() {
    ++at_;
    return *this;
  }
  constexpr NumberedIterator operator++(int) { return NumberedIterator(at_++); }
  bool operator==(const NumberedIterator&) const = default;

 private:
  size_t at_ = 0;
};

// The ids of a list in increasing order, for range-based loops.
template <class I>
class IdRange {
 public:
  using Iterator = NumberedIterator<I>;

  constexpr explicit IdRange(size_t size) : size_(size) {}
  constexpr Iterator begin() const { return Iterator(0); }
  constexpr Iterator end() const { return Iterator(size_); }

 private:
  size_t size_ = 0;
};

template <class I, class T>
class IdSpan;

template <class I, class T>
class IdVector {
 public:
  using value_type = T;

  IdVector() = default;
  IdVector(std::initializer_list<T> entries) : entries_(entries) {}
  explicit IdVector(size_t size) : entries_(size) {}
  IdVector(size_t size, const T& entry) : entries_(size, entry) {}

  decltype(auto) operator[](I id) { return entries_[id.index()]; }
  decltype(auto) operator[](I id) const { return entries_[id.index()]; }
  // Throws std::out_of_range for an id that is not in the list.
  decltype(auto) at(I id) { return entries_.at(id.index()); }
  decltype(auto) at(I id) const { return entries_.at(id.index()); }

  // Returns the id of the new entry.
  I push_back(T entry) {
    entries_.push_back(std::move(entry));
    return I(size() - 1);
  }
  template <class... A>
  I emplace_back(A&&... arguments) {
    entries_.emplace_back(std::forward<A>(arguments)...);
    return I(size() - 1);
  }

  bool contains(I id) const { return id && id.index() < size(); }
  IdRange<I> ids() const { return IdRange<I>(size()); }
  // Returns the id of the next new entry.
  I next_id() const { return I(size()); }

  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }
  auto begin() { return entries_.begin(); }
  auto begin() const { return entries_.begin(); }
  auto end() { return entries_.end(); }
  auto end() const { return entries_.end(); }
  decltype(auto) front() const { return entries_.front(); }
  decltype(auto) back() { return entries_.back(); }
  decltype(auto) back() const { return entries_.back(); }

  void clear() { entries_.clear(); }
  void reserve(size_t size) { entries_.reserve(size); }
  void resize(size_t size) { entries_.resize(size); }
  void assign(size_t size, const T& entry) { entries_.assign(size, entry); }
  void pop_back() { entries_.pop_back(); }
  // Changes the ids of the entries after `at`.
  auto erase(auto at) { return entries_.erase(at); }
  auto insert(auto at, T entry) { return entries_.insert(at, std::move(entry)); }
  bool operator==(const IdVector&) const = default;

 private:
  friend class IdSpan<I, T>;
  std::vector<T> entries_;
};

// A read-only view of an IdVector.
template <class I, class T>
class IdSpan {
 public:
  IdSpan() = default;
  IdSpan(const IdVector<I, T>& entries) : data_(entries.entries_.data()), size_(entries.size()) {}

  const T& operator[](I id) const { return data_[id.index()]; }
  bool contains(I id) const { return id && id.index() < size_; }
  IdRange<I> ids() const { return IdRange<I>(size_); }
  size_t size() const { return size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  const T* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace tessera

// Prints an id as its number, none as -1.
template <class Tag>
struct fmt::formatter<tessera::Id<Tag>> : fmt::formatter<int32_t> {
  template <class Context>
  auto format(tessera::Id<Tag> id, Context& context) const {
    return fmt::formatter<int32_t>::format(id.number(), context);
  }
};
