// Configurations are plain structs that list their fields once:
//
//   struct Batch {
//     int64_t global = 1;
//     static void fields(auto& self, auto&& visit) {
//       visit("global", self.global, "sequences per step");
//     }
//   };
//
// Run files, the command line, `config explain`, checkpoint headers and the documentation all use
// that list. A number may have a range as a fourth argument: visit("p", self.p, "…",
// between(0, 1)). A field is a bool, int64_t, double, std::string, a vector of strings,
// integers or numbers, an enum with `constexpr const char* enum_names(E)` = "first|second|…" (found
// by argument-dependent lookup), a struct with its own fields(), or any type with these functions
// in its namespace:
//   void read_value(const Tree&, T&, const SourceLocation&)
//   Tree write_value(const T&)
//   std::string type_name(const T&)
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/key_errors.h"
#include "base/range.h"
#include "base/tree.h"

namespace tessera {

// The source of a value, for messages: "run.yaml:9:12" and "batch.micro".
struct SourceLocation {
  std::string at, path;
};

// Returns the place of a list element at that line and column (0: unknown).
SourceLocation location_within(const SourceLocation& list, int line, int column);

// Throws Error("run.yaml:9:12: batch.micro: found the text 'four', expected an integer").
[[noreturn]] void wrong_value(const Tree& found, std::string_view wanted,
                              const SourceLocation& place);

void read_value(const Tree& tree, bool& value, const SourceLocation& place);
void read_value(const Tree& tree, int64_t& value,
                const SourceLocation& place);  // <= 2^53; accepts 1e5
void read_value(const Tree& tree, double& value,
                const SourceLocation& place);  // finite; accepts integers
void read_value(const Tree& tree, std::string& value, const SourceLocation& place);
void read_value(const Tree& tree, std::vector<std::string>& value, const SourceLocation& place);
void read_value(const Tree& tree, std::vector<int64_t>& value, const SourceLocation& place);
void read_value(const Tree& tree, std::vector<double>& value, const SourceLocation& place);
int read_enum(const Tree& tree, std::string_view names, const SourceLocation& place);

inline Tree write_value(bool x) { return Tree(x); }
inline Tree write_value(int64_t x) { return Tree(x); }
inline Tree write_value(double x) { return Tree(x); }
inline Tree write_value(const std::string& x) { return Tree(x); }
Tree write_value(const std::vector<std::string>& x);
Tree write_value(const std::vector<int64_t>& x);
Tree write_value(const std::vector<double>& x);

inline std::string type_name(bool) { return "true | false"; }
inline std::string type_name(int64_t) { return "integer"; }
inline std::string type_name(double) { return "number"; }
inline std::string type_name(const std::string&) { return "text"; }
inline std::string type_name(const std::vector<std::string>&) { return "list of texts"; }
inline std::string type_name(const std::vector<int64_t>&) { return "list of integers"; }
inline std::string type_name(const std::vector<double>&) { return "list of numbers"; }

// Returns the i-th name of "first|second|…".
std::string enum_name(std::string_view names, int i);
template <class E>
requires std::is_enum_v<E> std::string name_of_entry(E e) {
  return enum_name(enum_names(e), static_cast<int>(e));
}

// One leaf of a configuration, bound to a member of the struct.
struct Field {
  std::string path, type, help;  // "optimizer.beta1", "number", "decay of the first moment"
  bool text = false;             // on the command line, the text after '=' is not parsed
  Range range;                   // for numbers
  std::function<void(const Tree&, const SourceLocation&)> read;
  std::function<Tree()> write;
};

// Returns the leaves of `config` in the order of its fields(). They refer to `config`, which must
// outlive them.
template <class C>
std::vector<Field> fields_of(C& config, const std::string& prefix = "") {
  std::vector<Field> out;
  C::fields(config, [&]<class T>(const char* name, T& value, const char* help,
                                 const Range& range = {}) {
    const std::string path = prefix + name;
    if constexpr (std::is_enum_v<T>) {
      out.push_back({path,
                     enum_names(T{}),
                     help,
                     false,
                     {},
                     [&value](const Tree& t, const SourceLocation& p) {
                       value = static_cast<T>(read_enum(t, enum_names(T{}), p));
                     },
                     [&value] { return Tree(name_of_entry(value)); }});
    } else if constexpr (requires {
                           T::fields(value, [](const char*, auto&, const char*, Range = {}) {});
                         }) {
      for (Field& f : fields_of(value, path + ".")) out.push_back(std::move(f));
    } else {
      out.push_back({path, type_name(value), help, std::is_same_v<T, std::string>, range,
                     [&value](const Tree& t, const SourceLocation& p) { read_value(t, value, p); },
                     [&value] { return write_value(value); }});
    }
  });
  return out;
}

// For each path, the file, line and column (or the command line) that set its value.
using SourceLocations = std::map<std::string, std::string, std::less<>>;

// Reads the leaves that are in `tree`; the others keep their values. Adds the places of the values
// to `places`. Throws Error for an unknown key (naming the nearest known one) and for a value of
// the wrong type.
void read_fields(std::span<const Field> fields, const Tree& tree, const std::string& source,
                 SourceLocations& places);

// "batch.micro=8"
struct Override {
  std::string path, text;
};
Override parse_override(const std::string& argument);  // throws Error if there is no '='
void read_override(std::span<const Field> fields, const Override& override,
                   SourceLocations& places);

// Returns the leaf with that path, or throws Error that names the nearest known path. `at` is the
// place for the message and may be empty.
const Field& find_field(std::span<const Field> fields, std::string_view path,
                        const std::string& at);

Tree write_fields(std::span<const Field> fields);

// Adds an error for each number outside its range. The caller checks rules that involve several
// keys.
void check_ranges(std::span<const Field> fields, KeyErrors& errors);

// Returns all leaves with their values, as in run.yaml and checkpoint headers.
template <class C>
Tree to_tree(C config) {
  return write_fields(fields_of(config));
}

// A leaf in which two configurations differ. A value that one of them lacks is "(not given)".
struct Change {
  std::string path, before, after;
};
std::vector<Change> differences(const Tree& before, const Tree& after);

// Returns the element of `names` that is nearest to a mistyped name (spelling, initials, prefixes),
// or an empty text if none is near.
std::string nearest(std::string_view typed, std::span<const std::string> names);

}  // namespace tessera
