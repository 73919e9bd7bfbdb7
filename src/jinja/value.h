// The values of a template: those of Python that chat templates use. Lists and dictionaries cannot
// be changed, as in the sandbox of transformers; only the attributes of a namespace can.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/tree.h"

namespace tessera::jinja {

class Value;
struct Statement;

// An error of an evaluation, without its location. Template::render adds it.
struct Fault {
  std::string message;
};

struct Undefined {
  std::string name;  // name of the missing variable or attribute, for messages
};
struct None {};

// A generator is what `map` and `select` return: it is always true and has no length. A view is
// what `items()` returns: it has a length, but no elements by number.
enum class ListKind : uint8_t { kList, kTuple, kView, kGenerator };

struct ListValue {
  std::vector<Value> items;
  ListKind kind = ListKind::kList;
  int depth = 1;     // levels of nesting
  int64_t size = 1;  // elements at all levels; a string counts as one per 64 bytes
};

using Entry = std::pair<std::string, Value>;

struct DictValue {
  std::vector<Entry> entries;  // in the order of insertion
  int depth = 1;               // as in a list
  int64_t size = 1;
  const Value* find(std::string_view key) const;  // nullptr: there is none
};

struct Namespace {
  std::vector<Entry> entries;
};

// The variable `loop` of a `for` statement.
struct Loop {
  std::shared_ptr<const ListValue> items;
  size_t index = 0;
};

struct Macro {
  const Statement* definition = nullptr;
};

enum class Function : uint8_t { kNamespace, kRange, kDict, kRaiseException, kStrftimeNow };

enum class MethodName : uint8_t;  // jinja/methods.h

// A method together with its object.
struct Method {
  std::shared_ptr<const Value> object;
  MethodName name{};
};

class Value {
 public:
  using Text = std::shared_ptr<const std::string>;
  using ListPointer = std::shared_ptr<const ListValue>;
  using DictPointer = std::shared_ptr<const DictValue>;
  using NamespacePointer = std::shared_ptr<Namespace>;

  Value() : is_(Undefined{}) {}
  explicit Value(Undefined u) : is_(std::move(u)) {}
  explicit Value(None n) : is_(n) {}
  explicit Value(bool b) : is_(b) {}
  explicit Value(int64_t n) : is_(n) {}
  explicit Value(double x) : is_(x) {}
  explicit Value(std::string s) : is_(std::make_shared<const std::string>(std::move(s))) {}
  explicit Value(NamespacePointer n) : is_(std::move(n)) {}
  explicit Value(Loop l) : is_(std::move(l)) {}
  explicit Value(Macro m) : is_(m) {}
  explicit Value(Method m) : is_(std::move(m)) {}
  explicit Value(Function f) : is_(f) {}

  // Throw Fault if the value would be nested too deeply or be too large.
  static Value list(std::vector<Value> items, ListKind kind = ListKind::kList);
  static Value dict(std::vector<Entry> entries);
  static Value from_tree(const Tree& tree);

  template <class T>
  const T* as() const {
    return std::get_if<T>(&is_);
  }
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(is_);
  }
  const std::string* text() const;    // nullptr: not a string
  const ListValue* elements() const;  // nullptr: not a list
  const DictValue* members() const;   // nullptr: not a dictionary
  ListPointer list_pointer() const;   // requires elements()
  bool is_number() const { return is<bool>() || is<int64_t>() || is<double>(); }
  bool is_integer() const { return is<bool>() || is<int64_t>(); }
  int64_t integer() const;  // requires is_integer()
  double number() const;    // requires is_number()

 private:
  std::variant<Undefined, None, bool, int64_t, double, Text, ListPointer, DictPointer,
               NamespacePointer, Loop, Macro, Method, Function>
      is_;
};

// Returns the kind of a value for messages, such as "a string".
std::string_view kind_of(const Value& v);

// Python's bool(), == and <. less() throws Fault for values that cannot be ordered.
bool truth(const Value& v);
bool equal(const Value& a, const Value& b);
bool less(const Value& a, const Value& b);

// Returns the elements that a loop over the value visits: those of a list, the keys of a
// dictionary, the characters of a string, none of an undefined value. Throws Fault for other
// values.
std::shared_ptr<const ListValue> iterated(const Value& v);

// Returns the length of a string in characters, or of a list or dictionary. Throws Fault.
int64_t length(const Value& v);

// Python's `in`. Throws Fault if `where` is not a container.
bool contains(const Value& where, const Value& what);

}  // namespace tessera::jinja
