// Implements attributes, subscripts, slices, arithmetic and comparisons of values, with the results
// of Python: `//` and `%` round toward minus infinity, indices count from the end if they are
// negative, and a missing element is undefined instead of an error. Integers have 64 bits; Python's
// have no limit, so an overflow is an error and never a wrong number. What makes a string or a list
// longer charges the Budget before it allocates.
#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "jinja/interpreter.h"
#include "jinja/python_text.h"

namespace tessera::jinja {
namespace {

[[noreturn]] void fail_undefined(const Value& v) {
  const std::string& name = v.as<Undefined>()->name;
  throw Fault{name.empty() ? std::string("the value is undefined")
                           : fmt::format("'{}' is undefined", name)};
}

Value loop_attribute(const Loop& loop, std::string_view name) {
  const int64_t i = static_cast<int64_t>(loop.index), n = std::ssize(loop.items->items);
  const auto neighbor = [&](int64_t at) {
    return at >= 0 && at < n ? loop.items->items[static_cast<size_t>(at)]
                             : Value(Undefined{std::string(name)});
  };
  if (name == "index") return Value(i + 1);
  if (name == "index0") return Value(i);
  if (name == "revindex") return Value(n - i);
  if (name == "revindex0") return Value(n - i - 1);
  if (name == "first") return Value(i == 0);
  if (name == "last") return Value(i == n - 1);
  if (name == "length") return Value(n);
  if (name == "previtem") return neighbor(i - 1);
  if (name == "nextitem") return neighbor(i + 1);
  throw Fault{fmt::format("the attribute 'loop.{}' is not supported", name)};
}

// Returns the element of an index, which counts from the end if it is negative.
std::optional<size_t> position(int64_t index, int64_t size) {
  if (index < 0) index += size;
  if (index < 0 || index >= size) return std::nullopt;
  return static_cast<size_t>(index);
}

[[noreturn]] void fail_operands(const Value& a, const Value& b) {
  if (a.is<Undefined>()) fail_undefined(a);
  if (b.is<Undefined>()) fail_undefined(b);
  throw Fault{fmt::format("the operator does not apply to {} and {}", kind_of(a), kind_of(b))};
}

void check_fits(bool fits) {
  if (!fits) throw Fault{"the integer does not fit 64 bits"};
}

int64_t floor_divide(int64_t a, int64_t b) {
  if (b == 0) throw Fault{"division by zero"};
  if (b == -1) {
    check_fits(a != INT64_MIN);
    return -a;
  }
  const int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

// Multiplies n times; n is small, since the caller maps the large exponents of 0, 1 and -1 to 64
// or 65 and rejects others.
int64_t power(int64_t a, int64_t n) {
  int64_t out = 1;
  for (; n > 0; --n) check_fits(!__builtin_mul_overflow(out, a, &out));
  return out;
}

Value of_integers(Operator op, int64_t a, int64_t b) {
  int64_t r = 0;
  switch (op) {
    case Operator::kAdd:
      check_fits(!__builtin_add_overflow(a, b, &r));
      return Value(r);
    case Operator::kSubtract:
      check_fits(!__builtin_sub_overflow(a, b, &r));
      return Value(r);
    case Operator::kMultiply:
      check_fits(!__builtin_mul_overflow(a, b, &r));
      return Value(r);
    case Operator::kFloorDivide:
      return Value(floor_divide(a, b));
    case Operator::kModulo:
      return Value(b == -1 ? 0 : a - floor_divide(a, b) * b);
    case Operator::kDivide:
      if (b == 0) throw Fault{"division by zero"};
      return Value(static_cast<double>(a) / static_cast<double>(b));
    default:
      break;
  }
  if (b < 0) return Value(std::pow(static_cast<double>(a), static_cast<double>(b)));
  check_fits(b <= 64 || (a >= -1 && a <= 1));
  return Value(power(a, b > 64 ? 64 + b % 2 : b));
}

Value of_reals(Operator op, double a, double b) {
  const bool divides =
      op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kModulo;
  if (divides && b == 0) throw Fault{"division by zero"};
  switch (op) {
    case Operator::kAdd:
      return Value(a + b);
    case Operator::kSubtract:
      return Value(a - b);
    case Operator::kMultiply:
      return Value(a * b);
    case Operator::kDivide:
      return Value(a / b);
    case Operator::kFloorDivide:
      return Value(std::floor(a / b));
    case Operator::kModulo:
      return Value(a - std::floor(a / b) * b);
    default:
      return Value(std::pow(a, b));
  }
}

// Charges the size of the result before it is made, so that 'x' * 10**12 fails at once.
Value repeated(const Value& v, int64_t times, Budget& budget) {
  times = std::max<int64_t>(times, 0);
  const auto charge = [&](int64_t size) {
    int64_t all = 0;
    if (__builtin_mul_overflow(size, times, &all)) all = INT64_MAX;
    v.text() != nullptr ? budget.bytes(all) : budget.step(all);
  };
  if (const std::string* s = v.text()) {
    charge(std::ssize(*s));
    std::string out;
    for (int64_t i = 0; !s->empty() && i < times; ++i) out += *s;
    return Value(std::move(out));
  }
  const ListValue* list = v.elements();
  charge(std::ssize(list->items));
  std::vector<Value> out;
  for (int64_t i = 0; !list->items.empty() && i < times; ++i)
    out.insert(out.end(), list->items.begin(), list->items.end());
  return Value::list(std::move(out), list->kind);
}

bool is_plain_list(const Value& v) {
  const ListValue* list = v.elements();
  return list != nullptr && (list->kind == ListKind::kList || list->kind == ListKind::kTuple);
}

}  // namespace

// Jinja looks up an attribute of the Python object first and then an element: `message.items` is
// the method, also of a dictionary with the key "items". subscript() has the opposite order.
Value attribute(const Value& v, const std::string& name, std::optional<MethodName> method) {
  if (v.is<Undefined>()) fail_undefined(v);
  if (method && has_method(v, *method))
    return Value(Method{std::make_shared<const Value>(v), *method});
  if (const DictValue* dict = v.members())
    if (const Value* found = dict->find(name)) return *found;
  if (const Loop* loop = v.as<Loop>()) return loop_attribute(*loop, name);
  if (const auto* space = v.as<Value::NamespacePointer>())
    for (const auto& [key, value] : (*space)->entries)
      if (key == name) return value;
  return Value(Undefined{name});
}

Value subscript(const Value& v, const Value& key) {
  if (v.is<Undefined>()) fail_undefined(v);
  if (const std::string* name = key.text()) {
    if (const DictValue* dict = v.members())
      if (const Value* found = dict->find(*name)) return *found;
    return attribute(v, *name, find_method(*name));
  }
  if (key.is_integer()) {
    if (is_plain_list(v)) {
      const ListValue& list = *v.elements();
      if (const auto at = position(key.integer(), std::ssize(list.items))) return list.items[*at];
    } else if (const std::string* s = v.text()) {
      const auto all = characters(*s);
      if (const auto at = position(key.integer(), std::ssize(all)))
        return Value(std::string(all[*at]));
    }
  }
  return Value(Undefined{fmt::format("element {}", to_text(key))});
}

Value slice(const Value& v, const std::optional<int64_t>& start, const std::optional<int64_t>& stop,
            int64_t step) {
  if (v.is<Undefined>()) fail_undefined(v);
  if (const std::string* s = v.text()) {
    const auto all = characters(*s);
    std::string out;
    for (const size_t i : slice_indices(std::ssize(all), start, stop, step)) out += all[i];
    return Value(std::move(out));
  }
  if (!is_plain_list(v)) throw Fault{fmt::format("cannot slice {}", kind_of(v))};
  const ListValue& list = *v.elements();
  std::vector<Value> out;
  for (const size_t i : slice_indices(std::ssize(list.items), start, stop, step))
    out.push_back(list.items[i]);
  return Value::list(std::move(out), list.kind);
}

Value binary(Operator op, const Value& a, const Value& b, Budget& budget) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return of_integers(op, a.integer(), b.integer());
    return of_reals(op, a.number(), b.number());
  }
  if (op == Operator::kAdd && a.text() != nullptr && b.text() != nullptr) {
    budget.bytes(std::ssize(*a.text()) + std::ssize(*b.text()));
    return Value(*a.text() + *b.text());
  }
  if (op == Operator::kAdd && is_plain_list(a) && is_plain_list(b) &&
      a.elements()->kind == b.elements()->kind) {
    std::vector<Value> items = a.elements()->items;
    items.insert(items.end(), b.elements()->items.begin(), b.elements()->items.end());
    budget.step(std::ssize(items));
    return Value::list(std::move(items), a.elements()->kind);
  }
  if (op == Operator::kMultiply) {
    const auto repeats = [](const Value& v) { return v.text() != nullptr || is_plain_list(v); };
    if (repeats(a) && b.is_integer()) return repeated(a, b.integer(), budget);
    if (repeats(b) && a.is_integer()) return repeated(b, a.integer(), budget);
  }
  if (op == Operator::kModulo && a.text() != nullptr)
    throw Fault{"formatting a string with % is not supported; join texts with ~"};
  fail_operands(a, b);
}

bool compare(Operator op, const Value& a, const Value& b) {
  if (op == Operator::kEqual) return equal(a, b);
  if (op == Operator::kNotEqual) return !equal(a, b);
  if (op == Operator::kIn) return contains(b, a);
  if (op == Operator::kNotIn) return !contains(b, a);
  if (a.is<Undefined>()) fail_undefined(a);
  if (b.is<Undefined>()) fail_undefined(b);
  if (op == Operator::kLess) return less(a, b);
  if (op == Operator::kGreater) return less(b, a);
  return op == Operator::kLessEqual ? !less(b, a) : !less(a, b);
}

Value range_of(const Arguments& arguments, Budget& budget) {
  arguments.only(3, {});
  std::array<int64_t, 3> n{};
  if (arguments.positional.empty()) throw Fault{"range() needs a number"};
  for (size_t i = 0; i < arguments.positional.size(); ++i)
    n[i] = arguments.integer(i, "stop").value_or(0);
  const bool one = arguments.positional.size() == 1;
  const int64_t first = one ? 0 : n[0], stop = one ? n[0] : n[1];
  const int64_t step = arguments.positional.size() == 3 ? n[2] : 1;
  if (step == 0) throw Fault{"the step of range() is 0"};
  std::vector<Value> items;
  for (int64_t i = first; step > 0 ? i < stop : i > stop;) {
    budget.step();
    items.emplace_back(i);
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  return Value::list(std::move(items));
}

Value dict_of(const Arguments& arguments) {
  std::vector<Entry> entries;
  if (!arguments.positional.empty()) {
    const Value& from = arguments.positional[0];
    if (const DictValue* dict = from.members()) {
      entries = dict->entries;
    } else {
      const auto pairs = iterated(from);
      for (const Value& pair : pairs->items) {
        const ListValue* two = pair.elements();
        if (two == nullptr || two->items.size() != 2 || two->items[0].text() == nullptr)
          throw Fault{"dict() needs pairs of a string and a value"};
        entries.emplace_back(*two->items[0].text(), two->items[1]);
      }
    }
  }
  entries.insert(entries.end(), arguments.named.begin(), arguments.named.end());
  return Value::dict(std::move(entries));
}

}  // namespace tessera::jinja
