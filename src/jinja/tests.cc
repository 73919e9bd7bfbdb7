// Implements the tests of Jinja: `x is string`.
//
// A test never changes its value and returns true or false; `is not` is negated by the interpreter.
// Jinja's tests differ from Python's types in two places that templates depend on: `true is number`
// holds, and strings and dictionaries are sequences.
#include <array>

#include "base/error.h"
#include "jinja/arguments.h"
#include "jinja/filters.h"
#include "jinja/python_text.h"

namespace tessera::jinja {
namespace {

bool is_sequence(const Value& v) {
  const ListValue* list = v.elements();
  if (list != nullptr) return list->kind == ListKind::kList || list->kind == ListKind::kTuple;
  return v.text() != nullptr || v.members() != nullptr || v.is<Undefined>();
}

bool is_iterable(const Value& v) {
  return v.elements() != nullptr || v.text() != nullptr || v.members() != nullptr ||
         v.is<Undefined>();
}

const Value& other(const Arguments& a) { return a.required(0, "other"); }

int64_t integer(const Value& v) {
  if (!v.is_integer()) throw Fault{fmt::format("{} is not an integer", kind_of(v))};
  return v.integer();
}

// Returns Python's remainder, the remainder of floor division.
int64_t remainder(int64_t a, int64_t b) {
  if (b == 0) throw Fault{"division by zero"};
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

bool is_callable(const Value& v) { return v.is<Macro>() || v.is<Method>() || v.is<Function>(); }

bool is_cased(const Value& v, Case to) {
  return v.text() != nullptr && !v.text()->empty() && with_case(*v.text(), to) == *v.text();
}

struct NamedTest {
  std::string_view name;
  TestFunction test;
};
using A = const Arguments&;
using V = const Value&;
constexpr std::array kTests{
    NamedTest{"defined", [](V v, A) { return !v.is<Undefined>(); }},
    NamedTest{"undefined", [](V v, A) { return v.is<Undefined>(); }},
    NamedTest{"none", [](V v, A) { return v.is<None>(); }},
    NamedTest{"string", [](V v, A) { return v.text() != nullptr; }},
    NamedTest{"mapping", [](V v, A) { return v.members() != nullptr; }},
    NamedTest{"iterable", [](V v, A) { return is_iterable(v); }},
    NamedTest{"sequence", [](V v, A) { return is_sequence(v); }},
    NamedTest{"number", [](V v, A) { return v.is_number(); }},
    NamedTest{"integer", [](V v, A) { return v.is<int64_t>(); }},
    NamedTest{"float", [](V v, A) { return v.is<double>(); }},
    NamedTest{"boolean", [](V v, A) { return v.is<bool>(); }},
    NamedTest{"true", [](V v, A) { return v.is<bool>() && truth(v); }},
    NamedTest{"false", [](V v, A) { return v.is<bool>() && !truth(v); }},
    NamedTest{"callable", [](V v, A) { return is_callable(v); }},
    NamedTest{"odd", [](V v, A) { return remainder(integer(v), 2) == 1; }},
    NamedTest{"even", [](V v, A) { return remainder(integer(v), 2) == 0; }},
    NamedTest{"divisibleby",
              [](V v, A a) { return remainder(integer(v), integer(other(a))) == 0; }},
    NamedTest{"equalto", [](V v, A a) { return equal(v, other(a)); }},
    NamedTest{"eq", [](V v, A a) { return equal(v, other(a)); }},
    NamedTest{"==", [](V v, A a) { return equal(v, other(a)); }},
    NamedTest{"ne", [](V v, A a) { return !equal(v, other(a)); }},
    NamedTest{"!=", [](V v, A a) { return !equal(v, other(a)); }},
    NamedTest{"lt", [](V v, A a) { return less(v, other(a)); }},
    NamedTest{"gt", [](V v, A a) { return less(other(a), v); }},
    NamedTest{"le", [](V v, A a) { return !less(other(a), v); }},
    NamedTest{"ge", [](V v, A a) { return !less(v, other(a)); }},
    NamedTest{"in", [](V v, A a) { return contains(other(a), v); }},
    NamedTest{"lower", [](V v, A) { return is_cased(v, Case::kLower); }},
    NamedTest{"upper", [](V v, A) { return is_cased(v, Case::kUpper); }},
};

}  // namespace

TestFunction find_test(std::string_view name) {
  for (const NamedTest& t : kTests)
    if (t.name == name) return t.test;
  return nullptr;
}

}  // namespace tessera::jinja
