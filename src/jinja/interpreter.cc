// Evaluates a template by walking its syntax tree: execute() runs statements and appends to the
// output, evaluate() returns the value of an expression. There is no byte code. A chat template is
// rendered once per conversation and is dominated by copies of strings, so a walk is fast enough
// and keeps the location of each error.
//
// Scopes are a linked list of frames on the C++ stack, searched from the innermost one. An
// assignment always sets the variable in the innermost frame, as Jinja does; this is why templates
// carry state out of a loop in a namespace.
//
// A template is a file that a stranger wrote, so its work is bounded in three ways: each statement
// and expression is one step of a Budget, each level of nesting is a Level (the C++ stack), and
// lists, dictionaries and strings have a size limit (value.cc, arguments.h). Values are shared and
// immutable, so a copy costs a reference count. Only a namespace can change. It can contain itself,
// so the destructor clears all of them to break such cycles.
#include "jinja/interpreter.h"

#include <array>
#include <limits>
#include <utility>

#include "base/error.h"
#include "jinja/filters.h"
#include "jinja/python_text.h"

namespace tessera::jinja {
namespace {

constexpr std::array kFunctions{
    std::pair{"namespace", Function::kNamespace}, std::pair{"range", Function::kRange},
    std::pair{"dict", Function::kDict}, std::pair{"raise_exception", Function::kRaiseException},
    std::pair{"strftime_now", Function::kStrftimeNow}};

// Returns the variable of that name; nullptr: there is none. A frame has a handful of variables,
// for which a search is faster than a hash table.
Value* found(std::vector<Entry>& entries, std::string_view name) {
  for (auto& [key, value] : entries)
    if (key == name) return &value;
  return nullptr;
}

void put(std::vector<Entry>& entries, const std::string& name, const Value& value) {
  if (Value* old = found(entries, name))
    *old = value;
  else
    entries.emplace_back(name, value);
}

Value formatted_time(const std::optional<std::tm>& now, const Arguments& arguments) {
  arguments.only(1, {"format"});
  const std::string* format = arguments.text(0, "format");
  if (format == nullptr) throw Fault{"strftime_now() needs a format"};
  if (!now)
    throw Fault{
        "the template asks for the current date, and none is given. Set "
        "data.template_date to a date such as 2026-01-31"};
  if (format->empty()) return Value(std::string());
  std::array<char, 512> text{};
  const size_t bytes = std::strftime(text.data(), text.size(), format->c_str(), &*now);
  return Value(std::string(text.data(), bytes));
}

}  // namespace

Interpreter::Level::Level(int& levels) : levels_(levels) {
  constexpr int kMost = 2000;
  if (levels_ >= kMost) throw Fault{"the template nests statements and calls too deeply"};
  ++levels_;
}

Interpreter::Interpreter(const Tree& variables, const std::optional<std::tm>& now) : now_(now) {
  for (const auto& [name, function] : kFunctions) root_.variables.emplace_back(name, function);
  if (const Tree::Members* members = variables.as_members())
    for (const auto& [name, tree] : *members) put(root_.variables, name, Value::from_tree(tree));
}

Interpreter::~Interpreter() {
  for (const Value::NamespacePointer& n : namespaces_) n->entries.clear();
}

RenderedText Interpreter::run(const Block& body) {
  out_ = &result_.text;
  execute(body);
  return std::move(result_);
}

void Interpreter::write(std::string_view text) {
  budget_.grow(std::ssize(*out_) + std::ssize(text), std::ssize(text));
  *out_ += text;
}

Interpreter::Flow Interpreter::execute(const Block& block) {
  for (const auto& s : block)
    if (const Flow flow = execute(*s); flow != Flow::kNext) return flow;
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute(const Statement& s) {
  const Level level(levels_);
  at_ = s.at;
  budget_.step();
  switch (s.kind) {
    case StatementKind::kText:
      write(s.text);
      break;
    case StatementKind::kPrint: {
      const std::string text = to_text(evaluate(*s.expressions[0]));
      write(text);
      break;
    }
    case StatementKind::kIf:
      return execute_if(s);
    case StatementKind::kFor:
      return execute_for(s);
    case StatementKind::kSet:
      set(s, evaluate(*s.expressions[0]));
      break;
    case StatementKind::kSetBlock:
      return execute_set_block(s);
    case StatementKind::kMacro:
      put(scope_->variables, s.text, Value(Macro{&s}));
      break;
    case StatementKind::kGeneration:
      return execute_generation(s);
    case StatementKind::kBreak:
      return Flow::kBreak;
    case StatementKind::kContinue:
      return Flow::kContinue;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::execute_if(const Statement& s) {
  for (size_t i = 0; i < s.expressions.size(); ++i)
    if (truth(evaluate(*s.expressions[i]))) return execute(s.bodies[i]);
  return s.bodies.size() > s.expressions.size() ? execute(s.bodies.back()) : Flow::kNext;
}

// Returns the items of a loop that pass its condition.
std::vector<Value> Interpreter::loop_items(const Statement& s) {
  const Value all = evaluate(*s.expressions[0]);
  at_ = s.at;
  std::vector<Value> items = iterated(all)->items;
  budget_.step(std::ssize(items));
  if (s.expressions[1] == nullptr) return items;
  std::vector<Value> kept;
  for (Value& item : items) {
    Scope scope{scope_, {}};
    assign(s.targets, item, scope);
    scope_ = &scope;
    const bool passes = truth(evaluate(*s.expressions[1]));
    scope_ = scope.outer;
    if (passes) kept.push_back(std::move(item));
  }
  return kept;
}

// All items are evaluated and filtered before the first pass, as in Jinja, so that loop.length and
// loop.last are known. A `break` still counts as a loop that had items: the `else` block runs only
// for an empty list.
Interpreter::Flow Interpreter::execute_for(const Statement& s) {
  auto items = std::make_shared<ListValue>();
  items->items = loop_items(s);
  for (size_t i = 0; i < items->items.size(); ++i) {
    Scope scope{scope_, {}};
    assign(s.targets, items->items[i], scope);
    scope.variables.emplace_back("loop", Value(Loop{items, i}));
    scope_ = &scope;
    const Flow flow = execute(s.bodies[0]);
    scope_ = scope.outer;
    if (flow == Flow::kBreak) break;
  }
  if (items->items.empty() && s.bodies.size() > 1) return execute(s.bodies[1]);
  return Flow::kNext;
}

// Captures: the body writes into a string of its own, which replaces the output for that time. A
// `break` inside leaves the loop around the block, and the variable is not set.
Interpreter::Flow Interpreter::execute_set_block(const Statement& s) {
  std::string text;
  std::string* const outer = std::exchange(out_, &text);
  Scope scope{scope_, {}};
  scope_ = &scope;
  const Flow flow = execute(s.bodies[0]);
  scope_ = scope.outer;
  out_ = outer;
  if (flow == Flow::kNext) assign(s.targets, Value(std::move(text)), *scope_);
  return flow;
}

// Records the bytes that the body writes. The parser rejects the statement inside captures, so out_
// is the final output here and offsets into it stay valid. data/ turns these bytes into the tokens
// that count in the loss.
Interpreter::Flow Interpreter::execute_generation(const Statement& s) {
  const size_t begin = out_->size();
  Scope scope{scope_, {}};
  scope_ = &scope;
  const Flow flow = execute(s.bodies[0]);
  scope_ = scope.outer;
  result_.generated.emplace_back(begin, out_->size());
  return flow;
}

void Interpreter::set(const Statement& s, const Value& value) {
  at_ = s.at;
  if (!s.in_namespace) return assign(s.targets, value, *scope_);
  for (Scope* scope = scope_; scope != nullptr; scope = scope->outer) {
    const Value* v = found(scope->variables, s.targets[0]);
    if (v == nullptr) continue;
    const auto* space = v->as<Value::NamespacePointer>();
    if (space == nullptr)
      throw Fault{fmt::format("'{}' is {}, expected a namespace", s.targets[0], kind_of(*v))};
    return put((*space)->entries, s.targets[1], value);
  }
  throw Fault{fmt::format("'{}' is undefined", s.targets[0])};
}

void Interpreter::assign(const std::vector<std::string>& targets, const Value& value,
                         Scope& scope) {
  if (targets.size() == 1) return put(scope.variables, targets[0], value);
  const auto parts = iterated(value);
  if (parts->items.size() != targets.size())
    throw Fault{fmt::format("{} values for {} variables", parts->items.size(), targets.size())};
  for (size_t i = 0; i < targets.size(); ++i) put(scope.variables, targets[i], parts->items[i]);
}

Value Interpreter::evaluate_name(const Expression& e) {
  for (Scope* scope = scope_; scope != nullptr; scope = scope->outer)
    if (const Value* v = found(scope->variables, e.name)) return *v;
  return Value(Undefined{e.name});
}

Value Interpreter::evaluate(const Expression& e) {
  const Level level(levels_);
  budget_.step();
  const auto operand = [&](size_t i) { return evaluate(*e.operands[i]); };
  switch (e.kind) {
    case ExpressionKind::kConstant:
      return e.constant;
    case ExpressionKind::kName:
      return evaluate_name(e);
    case ExpressionKind::kList:
      return Value::list(evaluate_all(e, 0));
    case ExpressionKind::kTuple:
      return Value::list(evaluate_all(e, 0), ListKind::kTuple);
    case ExpressionKind::kDict:
      return evaluate_dict(e);
    case ExpressionKind::kSlice:
      return evaluate_slice(e);
    case ExpressionKind::kCall:
      return evaluate_call(e);
    case ExpressionKind::kCompare:
      return evaluate_compare(e);
    case ExpressionKind::kConcat:
      return evaluate_concat(e);
    case ExpressionKind::kNot:
      return Value(!truth(operand(0)));
    case ExpressionKind::kChoice:
      if (truth(operand(0))) return operand(1);
      return e.operands[2] != nullptr ? operand(2) : Value(Undefined{"the value of `if`"});
    default:
      break;
  }
  const Value first = operand(0);
  if (e.kind == ExpressionKind::kAnd) return truth(first) ? operand(1) : first;
  if (e.kind == ExpressionKind::kOr) return truth(first) ? first : operand(1);
  if (e.kind == ExpressionKind::kAttribute) {
    at_ = e.at;
    return attribute(first, e.name, e.method);
  }
  if (e.kind == ExpressionKind::kFilter || e.kind == ExpressionKind::kTest) {
    const Arguments arguments = arguments_of(e);
    at_ = e.at;
    if (e.kind == ExpressionKind::kFilter) return e.filter(first, arguments, budget_);
    return Value(e.test(first, arguments) != e.negated);
  }
  if (e.kind == ExpressionKind::kNegative || e.kind == ExpressionKind::kPositive) {
    at_ = e.at;
    const Value zero(int64_t{0});
    return binary(e.kind == ExpressionKind::kNegative ? Operator::kSubtract : Operator::kAdd, zero,
                  first, budget_);
  }
  const Value second = operand(1);
  at_ = e.at;
  if (e.kind == ExpressionKind::kSubscript) return subscript(first, second);
  return binary(e.operators[0], first, second, budget_);
}

std::vector<Value> Interpreter::evaluate_all(const Expression& e, size_t from) {
  std::vector<Value> values;
  for (size_t i = from; i < e.operands.size(); ++i) {
    const Expression& operand = *e.operands[i];
    if (operand.kind != ExpressionKind::kUnpack) {
      values.push_back(evaluate(operand));
      continue;
    }
    const Value list = evaluate(*operand.operands[0]);
    at_ = operand.at;
    const auto items = iterated(list);
    budget_.step(std::ssize(items->items));
    values.insert(values.end(), items->items.begin(), items->items.end());
  }
  return values;
}

Value Interpreter::evaluate_dict(const Expression& e) {
  std::vector<Entry> entries;
  for (size_t i = 0; i < e.operands.size(); i += 2) {
    const Value key = evaluate(*e.operands[i]);
    at_ = e.at;
    if (key.text() == nullptr)
      throw Fault{fmt::format("a key of a dictionary is {}, expected a string", kind_of(key))};
    entries.emplace_back(*key.text(), evaluate(*e.operands[i + 1]));
  }
  return Value::dict(std::move(entries));
}

Value Interpreter::evaluate_slice(const Expression& e) {
  const Value object = evaluate(*e.operands[0]);
  std::array<std::optional<int64_t>, 3> bounds;
  for (size_t i = 0; i < bounds.size(); ++i) {
    if (e.operands[i + 1] == nullptr) continue;
    const Value bound = evaluate(*e.operands[i + 1]);
    at_ = e.at;
    if (bound.is<None>()) continue;
    if (!bound.is_integer())
      throw Fault{fmt::format("a bound of a slice is {}, expected an integer", kind_of(bound))};
    bounds[i] = bound.integer();
  }
  at_ = e.at;
  return slice(object, bounds[0], bounds[1], bounds[2].value_or(1));
}

Value Interpreter::evaluate_compare(const Expression& e) {
  Value left = evaluate(*e.operands[0]);
  for (size_t i = 0; i < e.operators.size(); ++i) {
    Value right = evaluate(*e.operands[i + 1]);
    at_ = e.at;
    if (!compare(e.operators[i], left, right)) return Value(false);
    left = std::move(right);
  }
  return Value(true);
}

Value Interpreter::evaluate_concat(const Expression& e) {
  std::string out;
  for (const auto& operand : e.operands) {
    const Value v = evaluate(*operand);
    at_ = e.at;
    const std::string part = to_text(v);
    out += part;
    budget_.grow(std::ssize(out), std::ssize(part));
  }
  return Value(std::move(out));
}

Arguments Interpreter::arguments_of(const Expression& e) {
  Arguments arguments;
  arguments.positional = evaluate_all(e, 1);
  for (const auto& [name, value] : e.keywords) {
    const Value v = evaluate(*value);
    if (!name.empty()) {
      arguments.named.emplace_back(name, v);
      continue;
    }
    at_ = value->at;
    const DictValue* const members = v.members();
    if (members == nullptr)
      throw Fault{fmt::format("the argument with '**' is {}, expected a dictionary", kind_of(v))};
    budget_.step(std::ssize(members->entries));
    arguments.named.insert(arguments.named.end(), members->entries.begin(), members->entries.end());
  }
  return arguments;
}

Value Interpreter::evaluate_call(const Expression& e) {
  const Value callee = evaluate(*e.operands[0]);
  const Arguments arguments = arguments_of(e);
  at_ = e.at;
  if (const Method* method = callee.as<Method>()) return call_method(*method, arguments, budget_);
  if (const Macro* macro = callee.as<Macro>()) return call_macro(*macro->definition, arguments);
  if (const Function* function = callee.as<Function>()) return call_function(*function, arguments);
  if (const Undefined* u = callee.as<Undefined>())
    throw Fault{fmt::format("'{}' is undefined, so it cannot be called", u->name)};
  throw Fault{fmt::format("{} cannot be called", kind_of(callee))};
}

// A macro sees its arguments and the variables of the whole template, not those of its caller: its
// frame is linked to the root. Defaults are evaluated in that frame at each call, so a default may
// use an argument before it. The result is the text that the body writes.
Value Interpreter::call_macro(const Statement& macro, const Arguments& arguments) {
  if (++calls_ > Budget::kMostDepth)
    throw Fault{fmt::format("macros call each other more than {} deep", Budget::kMostDepth)};
  if (arguments.positional.size() > macro.parameters.size())
    throw Fault{fmt::format("the macro '{}' has {} arguments, got {}", macro.text,
                            macro.parameters.size(), arguments.positional.size())};
  for (const Entry& named : arguments.named) {
    bool known = false;
    for (const Parameter& p : macro.parameters) known = known || p.name == named.first;
    if (!known)
      throw Fault{fmt::format("the macro '{}' has no argument '{}'", macro.text, named.first)};
  }
  Scope scope{&root_, {}};
  Scope* const caller = std::exchange(scope_, &scope);
  std::string text;
  std::string* const outer = std::exchange(out_, &text);
  for (size_t i = 0; i < macro.parameters.size(); ++i) {
    const Parameter& p = macro.parameters[i];
    const Value* given = arguments.find(i, p.name);
    if (given == nullptr && p.value == nullptr)
      put(scope.variables, p.name, Value(Undefined{p.name}));
    else
      put(scope.variables, p.name, given != nullptr ? *given : evaluate(*p.value));
  }
  execute(macro.bodies[0]);
  out_ = outer;
  scope_ = caller;
  --calls_;
  return Value(std::move(text));
}

Value Interpreter::call_function(Function function, const Arguments& arguments) {
  switch (function) {
    case Function::kRange:
      return range_of(arguments, budget_);
    case Function::kDict:
      return dict_of(arguments);
    case Function::kStrftimeNow:
      return formatted_time(now_, arguments);
    case Function::kNamespace: {
      auto space = std::make_shared<Namespace>();
      space->entries = dict_of(arguments).members()->entries;
      namespaces_.push_back(space);
      return Value(std::move(space));
    }
    case Function::kRaiseException:
      break;
  }
  throw Fault{fmt::format("the template rejects the conversation: {}",
                          to_text(arguments.required(0, "message")))};
}

}  // namespace tessera::jinja
