// Implements the filters of lists and dictionaries. Those that Jinja implements as generators
// return ListKind::kGenerator, which has no length and is always true.
//
// `map`, `select` and their like are evaluated at once, not on demand: templates have no side
// effects that could show a difference, and the Budget counts the elements either way.
#include <algorithm>
#include <array>
#include <functional>

#include "base/error.h"
#include "jinja/arguments.h"
#include "jinja/filters.h"
#include "jinja/python_text.h"

namespace tessera::jinja {
namespace {

using V = const Value&;
using A = const Arguments&;

std::vector<Value> items_of(V v, Budget& budget) {
  const auto all = iterated(v);
  budget.step(std::ssize(all->items));
  return all->items;
}

// Returns the items of the input of map, select and similar filters; empty for a falsy value such
// as null, because Jinja tests the value before it iterates.
std::vector<Value> items_if_true(V v, Budget& budget) {
  return truth(v) ? items_of(v, budget) : std::vector<Value>();
}

Value list_filter(V v, A a, Budget& budget) {
  a.only(0, {});
  return Value::list(items_of(v, budget));
}

Value join(V v, A a, Budget& budget) {
  a.only(2, {"d", "attribute"});
  const std::string* between = a.text(0, "d");
  const Value* attribute = a.find(1, "attribute");
  std::string out;
  bool first = true;
  for (const Value& item : items_of(v, budget)) {
    if (!first && between != nullptr) out += *between;
    first = false;
    const std::string part =
        to_text(attribute != nullptr ? attribute_path(item, *attribute) : item);
    out += part;
    budget.grow(std::ssize(out), std::ssize(part));
  }
  return Value(std::move(out));
}

// Returns the arguments after the first `count`, for the filter or test that one of them names.
Arguments rest_of(A a, size_t count) {
  Arguments rest;
  if (a.positional.size() > count)
    rest.positional.assign(a.positional.begin() + static_cast<std::ptrdiff_t>(count),
                           a.positional.end());
  rest.named = a.named;
  return rest;
}

Value map(V v, A a, Budget& budget) {
  std::vector<Value> out = items_if_true(v, budget);
  if (const Value* attribute = a.positional.empty() ? a.find(0, "attribute") : nullptr) {
    a.only(0, {"attribute", "default"});
    const Value* otherwise = a.find(1, "default");
    for (Value& item : out) {
      item = attribute_path(item, *attribute);
      if (item.is<Undefined>() && otherwise != nullptr) item = *otherwise;
    }
  } else {
    const std::string* name = a.text(0, "the name of a filter");
    const Filter filter = name != nullptr ? find_filter(*name) : nullptr;
    if (filter == nullptr) throw Fault{"map needs attribute=… or the name of a known filter"};
    const Arguments rest = rest_of(a, 1);
    for (Value& item : out) item = filter(item, rest, budget);
  }
  return Value::list(std::move(out), ListKind::kGenerator);
}

// select, reject, selectattr and rejectattr: keeps items that pass a test, or whose attribute does.
Value chosen(V v, A a, Budget& budget, bool by_attribute, bool keep) {
  const size_t at = by_attribute ? 1 : 0;
  TestFunction test = [](V value, A) { return truth(value); };
  if (a.positional.size() > at) {
    const std::string* name = a.text(at, "the name of a test");
    test = name != nullptr ? find_test(*name) : nullptr;
    if (test == nullptr) throw Fault{"the name of a known test is expected"};
  }
  const Arguments rest = rest_of(a, at + 1);
  std::vector<Value> out;
  for (const Value& item : items_if_true(v, budget)) {
    const Value value =
        by_attribute ? attribute_path(item, a.required(0, "the name of an attribute")) : item;
    if (test(value, rest) == keep) out.push_back(item);
  }
  return Value::list(std::move(out), ListKind::kGenerator);
}

Value items(V v, A a, Budget& budget) {
  a.only(0, {});
  if (v.is<Undefined>()) return Value::list({}, ListKind::kGenerator);
  const DictValue* dict = v.members();
  if (dict == nullptr) throw Fault{fmt::format("items of {}", kind_of(v))};
  budget.step(std::ssize(dict->entries));
  std::vector<Value> out;
  for (const auto& [key, value] : dict->entries)
    out.push_back(Value::list({Value(key), value}, ListKind::kTuple));
  return Value::list(std::move(out), ListKind::kGenerator);
}

// Jinja compares texts without case unless case_sensitive is set.
Value sort_key(V v, bool case_sensitive) {
  return v.text() != nullptr && !case_sensitive ? Value(with_case(*v.text(), Case::kLower)) : v;
}

void sort_values(std::vector<Value>& all, bool reverse, bool case_sensitive,
                 const std::function<Value(V)>& part) {
  std::stable_sort(all.begin(), all.end(), [&](V x, V y) {
    const Value p = sort_key(part(x), case_sensitive), q = sort_key(part(y), case_sensitive);
    return reverse ? less(q, p) : less(p, q);
  });
}

Value sort(V v, A a, Budget& budget) {
  a.only(3, {"reverse", "case_sensitive", "attribute"});
  std::vector<Value> all = items_of(v, budget);
  const Value* attribute = a.find(2, "attribute");
  sort_values(all, a.flag(0, "reverse"), a.flag(1, "case_sensitive"),
              [&](V x) { return attribute != nullptr ? attribute_path(x, *attribute) : x; });
  return Value::list(std::move(all));
}

Value dictsort(V v, A a, Budget& budget) {
  a.only(3, {"case_sensitive", "by", "reverse"});
  const std::string* by = a.text(1, "by");
  const Value pairs = items(v, {}, budget);
  std::vector<Value> all = pairs.elements()->items;
  const size_t at = by != nullptr && *by == "value" ? 1 : 0;
  sort_values(all, a.flag(2, "reverse"), a.flag(0, "case_sensitive"),
              [&](V x) { return x.elements()->items[at]; });
  return Value::list(std::move(all));
}

// Compares each element with those kept so far, because values have no hash; the comparisons are
// charged as steps, which bounds the quadratic time.
Value unique(V v, A a, Budget& budget) {
  a.only(1, {"case_sensitive"});
  std::vector<Value> out, keys;
  for (const Value& item : items_of(v, budget)) {
    Value key = sort_key(item, a.flag(0, "case_sensitive"));
    budget.step(std::ssize(keys));
    if (std::any_of(keys.begin(), keys.end(), [&](V k) { return equal(k, key); })) continue;
    keys.push_back(std::move(key));
    out.push_back(item);
  }
  return Value::list(std::move(out), ListKind::kGenerator);
}

Value end_of(V v, A a, Budget& budget, bool first) {
  a.only(0, {});
  const std::vector<Value> all = items_of(v, budget);
  if (all.empty()) return Value(Undefined{first ? "the first element" : "the last element"});
  return first ? all.front() : all.back();
}

Value reverse(V v, A a, Budget& budget) {
  a.only(0, {});
  std::vector<Value> all = items_of(v, budget);
  std::reverse(all.begin(), all.end());
  if (v.text() == nullptr) return Value::list(std::move(all), ListKind::kGenerator);
  std::string out;
  for (const Value& c : all) out += *c.text();
  return Value(std::move(out));
}

constexpr std::array kFilters{
    NamedFilter{"list", list_filter},
    NamedFilter{"join", join},
    NamedFilter{"map", map},
    NamedFilter{"select", [](V v, A a, Budget& b) { return chosen(v, a, b, false, true); }},
    NamedFilter{"reject", [](V v, A a, Budget& b) { return chosen(v, a, b, false, false); }},
    NamedFilter{"selectattr", [](V v, A a, Budget& b) { return chosen(v, a, b, true, true); }},
    NamedFilter{"rejectattr", [](V v, A a, Budget& b) { return chosen(v, a, b, true, false); }},
    NamedFilter{"items", items},
    NamedFilter{"sort", sort},
    NamedFilter{"dictsort", dictsort},
    NamedFilter{"unique", unique},
    NamedFilter{"first", [](V v, A a, Budget& b) { return end_of(v, a, b, true); }},
    NamedFilter{"last", [](V v, A a, Budget& b) { return end_of(v, a, b, false); }},
    NamedFilter{"reverse", reverse},
};

}  // namespace

Filter find_list_filter(std::string_view name) {
  for (const NamedFilter& f : kFilters)
    if (f.name == name) return f.filter;
  return nullptr;
}

bool names_filter(Filter filter) { return filter == find_list_filter("map"); }

bool names_test(Filter filter, size_t& position) {
  position = filter == find_list_filter("selectattr") || filter == find_list_filter("rejectattr");
  return position == 1 || filter == find_list_filter("select") ||
         filter == find_list_filter("reject");
}

Value attribute_path(const Value& v, const Value& path) {
  Value here = v;
  const std::string text = to_text(path);
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find('.', at), text.size());
    const std::string part = text.substr(at, end - at);
    if (here.is<Undefined>())
      throw Fault{fmt::format("'{}' is undefined", here.as<Undefined>()->name)};
    const Value* found = here.members() != nullptr ? here.members()->find(part) : nullptr;
    const bool number = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    if (const ListValue* list = here.elements(); list != nullptr && number && part.size() < 9)
      if (const size_t i = std::stoul(part); i < list->items.size()) found = &list->items[i];
    here = found != nullptr ? Value(*found) : Value(Undefined{part});
    at = end + 1;
  }
  return here;
}

}  // namespace tessera::jinja
