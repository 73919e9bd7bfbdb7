// Implements Python's truth, equality, order and iteration for the values of templates.
//
// A value is immutable and shared, and its depth and size are computed once, when it is made, from
// those of its members. So a limit on both costs nothing later, and comparing and printing need no
// counters of their own. Dictionaries are lists in the order of insertion, as Python's; they have
// few keys, so a search is linear.
#include "jinja/value.h"

#include <algorithm>

#include "base/error.h"
#include "jinja/python_text.h"

namespace tessera::jinja {
namespace {

// JSON is nested at most 256 deep; templates add a few levels. The limit protects the stack.
constexpr int kMostDepth = 400;

// A list may contain another one twice, so that its text is much longer than its memory. The limit
// bounds the work of printing and comparing.
constexpr int64_t kMostElements = 1'000'000, kBytesPerElement = 64;

// Counts a member of a list or dictionary in the depth and the size of that.
template <class Container>
void count(const Value& member, Container& in) {
  int depth = 0;
  int64_t size = 1;
  if (const ListValue* list = member.elements()) {
    depth = list->depth;
    size = list->size;
  } else if (const DictValue* dict = member.members()) {
    depth = dict->depth;
    size = dict->size;
  } else if (const std::string* text = member.text()) {
    size = 1 + std::ssize(*text) / kBytesPerElement;
  }
  in.depth = std::max(in.depth, 1 + depth);
  in.size += size;
  if (in.depth > kMostDepth)
    throw Fault{fmt::format("a value is nested more than {} levels deep", kMostDepth)};
  if (in.size > kMostElements)
    throw Fault{fmt::format("a value has more than {} elements", kMostElements)};
}

bool equal_entries(const DictValue& a, const DictValue& b) {
  if (a.entries.size() != b.entries.size()) return false;
  return std::all_of(a.entries.begin(), a.entries.end(), [&](const Entry& e) {
    const Value* other = b.find(e.first);
    return other != nullptr && equal(e.second, *other);
  });
}

}  // namespace

const Value* DictValue::find(std::string_view key) const {
  for (const Entry& e : entries)
    if (e.first == key) return &e.second;
  return nullptr;
}

Value Value::list(std::vector<Value> items, ListKind kind) {
  auto list = std::make_shared<ListValue>();
  for (const Value& v : items) count(v, *list);
  list->items = std::move(items);
  list->kind = kind;
  Value v;
  v.is_ = ListPointer(std::move(list));
  return v;
}

Value Value::dict(std::vector<Entry> entries) {
  auto dict = std::make_shared<DictValue>();
  for (Entry& e : entries) {
    count(e.second, *dict);
    // A later entry replaces the value of an earlier one, as in Python.
    const auto same = std::find_if(dict->entries.begin(), dict->entries.end(),
                                   [&](const Entry& other) { return other.first == e.first; });
    if (same == dict->entries.end())
      dict->entries.push_back(std::move(e));
    else
      same->second = std::move(e.second);
  }
  Value v;
  v.is_ = DictPointer(std::move(dict));
  return v;
}

Value Value::from_tree(const Tree& tree) {
  struct Visit {
    Value operator()(std::monostate) const { return Value(None{}); }
    Value operator()(bool b) const { return Value(b); }
    Value operator()(int64_t n) const { return Value(n); }
    Value operator()(double x) const { return Value(x); }
    Value operator()(const std::string& s) const { return Value(s); }
    Value operator()(const Tree::List& list) const {
      std::vector<Value> items;
      items.reserve(list.size());
      for (const Tree& t : list) items.push_back(from_tree(t));
      return Value::list(std::move(items));
    }
    Value operator()(const Tree::Members& members) const {
      std::vector<Entry> entries;
      entries.reserve(members.size());
      for (const auto& [key, t] : members) entries.emplace_back(key, from_tree(t));
      return dict(std::move(entries));
    }
  };
  return std::visit(Visit{}, tree.value);
}

const std::string* Value::text() const {
  const Text* t = std::get_if<Text>(&is_);
  return t != nullptr ? t->get() : nullptr;
}

const ListValue* Value::elements() const {
  const ListPointer* p = std::get_if<ListPointer>(&is_);
  return p != nullptr ? p->get() : nullptr;
}

const DictValue* Value::members() const {
  const DictPointer* p = std::get_if<DictPointer>(&is_);
  return p != nullptr ? p->get() : nullptr;
}

Value::ListPointer Value::list_pointer() const { return std::get<ListPointer>(is_); }

int64_t Value::integer() const {
  const bool* b = as<bool>();
  return b != nullptr ? int64_t{*b} : std::get<int64_t>(is_);
}

double Value::number() const {
  const double* x = as<double>();
  return x != nullptr ? *x : static_cast<double>(integer());
}

std::string_view kind_of(const Value& v) {
  if (v.is<Undefined>()) return "undefined";
  if (v.is<None>()) return "none";
  if (v.is<bool>()) return "true or false";
  if (v.is_number()) return "a number";
  if (v.text() != nullptr) return "a string";
  if (v.elements() != nullptr) return "a list";
  if (v.members() != nullptr) return "a dictionary";
  if (v.is<Value::NamespacePointer>()) return "a namespace";
  if (v.is<Loop>()) return "the variable `loop`";
  return "a function";
}

bool truth(const Value& v) {
  if (v.is<Undefined>() || v.is<None>()) return false;
  if (v.is_number()) return v.number() != 0;
  if (v.text() != nullptr) return !v.text()->empty();
  if (const ListValue* list = v.elements())
    return list->kind == ListKind::kGenerator || !list->items.empty();
  if (const DictValue* dict = v.members()) return !dict->entries.empty();
  return true;
}

bool equal(const Value& a, const Value& b) {
  if (a.is<Undefined>() || a.is<None>())
    return a.is<Undefined>() ? b.is<Undefined>() : b.is<None>();
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return a.integer() == b.integer();
    return a.number() == b.number();
  }
  if (a.text() != nullptr && b.text() != nullptr) return *a.text() == *b.text();
  if (const ListValue* x = a.elements(), *y = b.elements(); x != nullptr && y != nullptr) {
    if (x->kind != y->kind) return false;
    return std::equal(x->items.begin(), x->items.end(), y->items.begin(), y->items.end(), equal);
  }
  if (a.members() != nullptr && b.members() != nullptr)
    return equal_entries(*a.members(), *b.members());
  return false;
}

bool less(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (a.is_integer() && b.is_integer()) return a.integer() < b.integer();
    return a.number() < b.number();
  }
  // The order of UTF-8 bytes is that of characters.
  if (a.text() != nullptr && b.text() != nullptr) return *a.text() < *b.text();
  if (const ListValue* x = a.elements(), *y = b.elements(); x != nullptr && y != nullptr)
    return std::lexicographical_compare(x->items.begin(), x->items.end(), y->items.begin(),
                                        y->items.end(), less);
  throw Fault{fmt::format("cannot compare {} with {}", kind_of(a), kind_of(b))};
}

std::shared_ptr<const ListValue> iterated(const Value& v) {
  if (v.elements() != nullptr) return v.list_pointer();
  auto out = std::make_shared<ListValue>();
  if (const DictValue* dict = v.members()) {
    for (const Entry& e : dict->entries) out->items.emplace_back(e.first);
  } else if (const std::string* s = v.text()) {
    for (const std::string_view c : characters(*s)) out->items.emplace_back(std::string(c));
  } else if (!v.is<Undefined>()) {
    throw Fault{fmt::format("cannot loop over {}", kind_of(v))};
  }
  return out;
}

int64_t length(const Value& v) {
  if (const std::string* s = v.text()) return std::ssize(characters(*s));
  if (const DictValue* dict = v.members()) return std::ssize(dict->entries);
  if (v.is<Undefined>()) return 0;
  if (const ListValue* list = v.elements(); list != nullptr && list->kind != ListKind::kGenerator)
    return std::ssize(list->items);
  throw Fault{fmt::format("{} has no length", kind_of(v))};
}

bool contains(const Value& where, const Value& what) {
  if (const std::string* s = where.text()) {
    if (what.text() == nullptr)
      throw Fault{fmt::format("'in' needs a string on its left, found {}", kind_of(what))};
    return s->find(*what.text()) != std::string::npos;
  }
  if (const DictValue* dict = where.members())
    return what.text() != nullptr && dict->find(*what.text()) != nullptr;
  const auto all = iterated(where);
  return std::any_of(all->items.begin(), all->items.end(),
                     [&](const Value& v) { return equal(v, what); });
}

}  // namespace tessera::jinja
