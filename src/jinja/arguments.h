// The arguments of a call, and the limits of an evaluation.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "jinja/value.h"

namespace tessera::jinja {

// Counts the work of one evaluation: steps, and the bytes of the strings that it makes.
class Budget {
 public:
  static constexpr int64_t kMostSteps = 1'000'000;
  static constexpr int64_t kMostBytes = int64_t{64}
                                        << 20;  // limit for the output and for one string
  static constexpr int kMostDepth = 100;        // calls of macros inside each other

  // All throw Fault if a limit is exceeded.
  void step(int64_t count = 1) {
    steps_ += count;
    if (count < 0 || steps_ > kMostSteps)
      throw Fault{fmt::format("the template takes more than {} steps", kMostSteps)};
  }
  void bytes(int64_t count) { grow(count, count); }
  // A string has grown by `added` bytes to `count`.
  void grow(int64_t count, int64_t added) {
    if (count > kMostBytes)
      throw Fault{fmt::format("the text is longer than {} bytes", kMostBytes)};
    step(added / kBytesPerStep);
  }

 private:
  static constexpr int64_t kBytesPerStep = 1024;
  int64_t steps_ = 0;
};

// The values of a call: by position, then by name.
class Arguments {
 public:
  std::vector<Value> positional;
  std::vector<Entry> named;

  // Returns the argument of that position or name; nullptr: not given. Each is given at most once.
  const Value* find(size_t position, std::string_view name) const {
    if (position < positional.size()) return &positional[position];
    for (const Entry& e : named)
      if (e.first == name) return &e.second;
    return nullptr;
  }
  // The same as text or as an integer, or nothing if it is not given or none. Throw Fault.
  const std::string* text(size_t position, std::string_view name) const {
    const Value* v = find(position, name);
    if (v == nullptr || v->is<None>()) return nullptr;
    if (v->text() == nullptr)
      throw Fault{fmt::format("argument '{}' is {}, expected a string", name, kind_of(*v))};
    return v->text();
  }
  std::optional<int64_t> integer(size_t position, std::string_view name) const {
    const Value* v = find(position, name);
    if (v == nullptr || v->is<None>()) return std::nullopt;
    if (!v->is_integer())
      throw Fault{fmt::format("argument '{}' is {}, expected an integer", name, kind_of(*v))};
    return v->integer();
  }
  bool flag(size_t position, std::string_view name) const {
    const Value* v = find(position, name);
    return v != nullptr && truth(*v);
  }
  // Returns the argument. Throws Fault if it is missing.
  const Value& required(size_t position, std::string_view name) const {
    const Value* v = find(position, name);
    if (v == nullptr) throw Fault{fmt::format("argument '{}' is missing", name)};
    return *v;
  }
  // Throws Fault if there are more arguments by position, or one by a name that is not listed.
  void only(size_t most, std::initializer_list<std::string_view> names) const {
    if (positional.size() > most)
      throw Fault{fmt::format("{} arguments, expected at most {}", positional.size(), most)};
    for (const Entry& e : named) {
      bool known = false;
      for (const std::string_view name : names) known = known || name == e.first;
      if (!known) throw Fault{fmt::format("unknown argument '{}'", e.first)};
    }
  }
};

}  // namespace tessera::jinja
