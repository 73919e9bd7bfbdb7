// Parses the expressions of a template by recursive descent, one function per level of precedence.
//
// A function parses operands of the next stronger level and joins them while it sees its own
// operators, which makes operators of one level associate to the left. Differences from Python that
// Jinja has, and that are kept: `~` is between `+` and `*`, `**` associates to the left, and
// filters and tests bind stronger than every binary operator, so that `a + b | trim` trims b only.
//
// Every node stores the depth of its tree. A chain a + b + … nests to the left and so makes a tree
// as deep as it is long, without nested calls of the parser; the depth bounds the recursion of
// evaluation and destruction in that case too.
#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "jinja/arguments.h"
#include "jinja/filters.h"
#include "jinja/parser.h"

namespace tessera::jinja {
namespace {

constexpr int kMostNested = 100;  // calls of the parser
constexpr int kMostDepth = 200;   // levels of a tree; a chain a + b + … makes one per operand

ExpressionPointer make(ExpressionKind kind, const Location& at) {
  auto e = std::make_unique<Expression>();
  e->kind = kind;
  e->at = at;
  return e;
}

// Adds an operand, which may be null. Throws DeepExpression.
void append(Expression& e, ExpressionPointer operand) {
  if (operand) e.depth = std::max(e.depth, 1 + operand->depth);
  if (e.depth > kMostDepth) throw DeepExpression{e.at};
  e.operands.push_back(std::move(operand));
}

void add_keyword(Expression& e, std::string name, ExpressionPointer value) {
  e.depth = std::max(e.depth, 1 + value->depth);
  e.keywords.emplace_back(std::move(name), std::move(value));
}

ExpressionPointer constant(Value v, const Location& at) {
  ExpressionPointer e = make(ExpressionKind::kConstant, at);
  e->constant = std::move(v);
  return e;
}

ExpressionPointer with(ExpressionKind kind, const Location& at, ExpressionPointer a,
                       ExpressionPointer b = nullptr) {
  ExpressionPointer e = make(kind, at);
  append(*e, std::move(a));
  if (b) append(*e, std::move(b));
  return e;
}

ExpressionPointer binary(Operator op, const Location& at, ExpressionPointer a,
                         ExpressionPointer b) {
  ExpressionPointer e = with(ExpressionKind::kBinary, at, std::move(a), std::move(b));
  e->operators = {op};
  return e;
}

struct NamedOperator {
  std::string_view text;
  Operator op;
};
constexpr std::array kSums{NamedOperator{"+", Operator::kAdd},
                           NamedOperator{"-", Operator::kSubtract}};
constexpr std::array kProducts{
    NamedOperator{"*", Operator::kMultiply}, NamedOperator{"/", Operator::kDivide},
    NamedOperator{"//", Operator::kFloorDivide}, NamedOperator{"%", Operator::kModulo}};
constexpr std::array kComparisons{
    NamedOperator{"==", Operator::kEqual},  NamedOperator{"!=", Operator::kNotEqual},
    NamedOperator{"<", Operator::kLess},    NamedOperator{"<=", Operator::kLessEqual},
    NamedOperator{">", Operator::kGreater}, NamedOperator{">=", Operator::kGreaterEqual}};

template <class Table>
const Operator* found(const TokenReader& t, const Table& table) {
  for (const NamedOperator& n : table)
    if (t.sees_operator(n.text)) return &n.op;
  return nullptr;
}

// Counts the levels of nested expressions, to protect the stack.
class Nested {
 public:
  Nested(int& depth, const TokenReader& t) : depth_(depth) {
    if (++depth_ > kMostNested)
      t.fail(t.peek().at, fmt::format("expressions are nested more than {} deep", kMostNested));
  }
  ~Nested() { --depth_; }
  Nested(const Nested&) = delete;
  Nested& operator=(const Nested&) = delete;

 private:
  int& depth_;
};

// Throws if a filter's argument is the name of a filter or test that is not supported.
void check_named(const Expression& e, const TokenReader& t) {
  size_t position = 0;
  const bool filter = names_filter(e.filter), test = names_test(e.filter, position);
  if ((!filter && !test) || e.operands.size() <= position + 1) return;
  const Expression& argument = *e.operands[position + 1];
  const std::string* name = argument.constant.text();
  if (argument.kind != ExpressionKind::kConstant || name == nullptr) return;
  const bool known = filter ? find_filter(*name) != nullptr : find_test(*name) != nullptr;
  if (!known)
    t.fail(argument.at,
           fmt::format("the {} '{}' is not supported", filter ? "filter" : "test", *name));
}

}  // namespace

ExpressionPointer ExpressionParser::parse_expression() { return parse_choice(); }

ExpressionPointer ExpressionParser::parse_tuple(bool with_choice) {
  const Location at = t_.peek().at;
  const auto one = [&] { return with_choice ? parse_choice() : parse_or(); };
  ExpressionPointer first = one();
  if (!t_.sees_operator(",")) return first;
  ExpressionPointer tuple = with(ExpressionKind::kTuple, at, std::move(first));
  while (t_.take_operator(",")) {
    const TokenKind next = t_.peek().kind;
    if (next == TokenKind::kBlockEnd || next == TokenKind::kPrintEnd || t_.sees_operator(")"))
      break;
    append(*tuple, one());
  }
  return tuple;
}

ExpressionPointer ExpressionParser::parse_choice() {
  const Nested nested(depth_, t_);
  ExpressionPointer e = parse_or();
  while (t_.sees_name("if")) {
    const Location at = t_.take().at;
    ExpressionPointer choice = with(ExpressionKind::kChoice, at, parse_or(), std::move(e));
    append(*choice, t_.take_name("else") ? parse_choice() : nullptr);
    e = std::move(choice);
  }
  return e;
}

ExpressionPointer ExpressionParser::parse_or() {
  ExpressionPointer e = parse_and();
  while (t_.sees_name("or")) {
    const Location at = t_.take().at;
    e = with(ExpressionKind::kOr, at, std::move(e), parse_and());
  }
  return e;
}

ExpressionPointer ExpressionParser::parse_and() {
  ExpressionPointer e = parse_not();
  while (t_.sees_name("and")) {
    const Location at = t_.take().at;
    e = with(ExpressionKind::kAnd, at, std::move(e), parse_not());
  }
  return e;
}

ExpressionPointer ExpressionParser::parse_not() {
  const Nested nested(depth_, t_);
  if (!t_.sees_name("not")) return parse_comparison();
  const Location at = t_.take().at;
  return with(ExpressionKind::kNot, at, parse_not());
}

ExpressionPointer ExpressionParser::parse_comparison() {
  ExpressionPointer first = parse_sum();
  ExpressionPointer compare;
  for (;;) {
    const Location at = t_.peek().at;
    Operator op{};
    if (const Operator* known = found(t_, kComparisons)) {
      op = *known;
      t_.take();
    } else if (t_.take_name("in")) {
      op = Operator::kIn;
    } else if (t_.sees_name("not") && t_.sees(TokenKind::kName, "in", 1)) {
      t_.take();
      t_.take();
      op = Operator::kNotIn;
    } else {
      return compare ? std::move(compare) : std::move(first);
    }
    if (!compare) compare = with(ExpressionKind::kCompare, at, std::move(first));
    compare->operators.push_back(op);
    append(*compare, parse_sum());
  }
}

ExpressionPointer ExpressionParser::parse_sum() {
  ExpressionPointer e = parse_concat();
  while (const Operator* op = found(t_, kSums)) {
    const Location at = t_.take().at;
    e = binary(*op, at, std::move(e), parse_concat());
  }
  return e;
}

ExpressionPointer ExpressionParser::parse_concat() {
  ExpressionPointer e = parse_product();
  if (!t_.sees_operator("~")) return e;
  ExpressionPointer concat = with(ExpressionKind::kConcat, t_.peek().at, std::move(e));
  while (t_.take_operator("~")) append(*concat, parse_product());
  return concat;
}

ExpressionPointer ExpressionParser::parse_product() {
  ExpressionPointer e = parse_power();
  while (const Operator* op = found(t_, kProducts)) {
    const Location at = t_.take().at;
    e = binary(*op, at, std::move(e), parse_power());
  }
  return e;
}

ExpressionPointer ExpressionParser::parse_power() {
  ExpressionPointer e = parse_unary();
  while (t_.sees_operator("**")) {
    const Location at = t_.take().at;
    e = binary(Operator::kPower, at, std::move(e), parse_unary());
  }
  return e;
}

ExpressionPointer ExpressionParser::parse_unary(bool with_filter) {
  const Nested nested(depth_, t_);
  const Location at = t_.peek().at;
  ExpressionPointer e;
  if (t_.take_operator("-"))
    e = with(ExpressionKind::kNegative, at, parse_unary(false));
  else if (t_.take_operator("+"))
    e = with(ExpressionKind::kPositive, at, parse_unary(false));
  else
    e = parse_primary();
  e = parse_postfix(std::move(e));
  return with_filter ? parse_filters(std::move(e)) : std::move(e);
}

ExpressionPointer ExpressionParser::parse_primary() {
  const Token token = t_.peek();
  if (token.kind == TokenKind::kOperator) {
    if (token.text == "(") return parse_parentheses();
    if (token.text == "[") return parse_list();
    if (token.text == "{") return parse_dict();
    t_.fail_unexpected("a value");
  }
  const Token value = t_.take();
  switch (value.kind) {
    case TokenKind::kName: {
      const std::string& n = value.text;
      if (n == "true" || n == "True") return constant(Value(true), value.at);
      if (n == "false" || n == "False") return constant(Value(false), value.at);
      if (n == "none" || n == "None") return constant(Value(None{}), value.at);
      ExpressionPointer e = make(ExpressionKind::kName, value.at);
      e->name = n;
      return e;
    }
    case TokenKind::kString: {
      std::string text = value.text;
      while (t_.peek().kind == TokenKind::kString) text += t_.take().text;
      return constant(Value(std::move(text)), value.at);
    }
    case TokenKind::kInteger: {
      int64_t n = 0;
      const char* end = value.text.data() + value.text.size();
      if (std::from_chars(value.text.data(), end, n).ec != std::errc())
        t_.fail(value.at, "the integer does not fit 64 bits");
      return constant(Value(n), value.at);
    }
    case TokenKind::kReal:
      return constant(Value(std::stod(value.text)), value.at);
    default:
      t_.fail(token.at, "the expression is incomplete, expected a value");
  }
}

ExpressionPointer ExpressionParser::parse_parentheses() {
  const Location at = t_.take().at;
  if (t_.take_operator(")")) return make(ExpressionKind::kTuple, at);
  ExpressionPointer e = parse_tuple();
  t_.expect_operator(")");
  return e;
}

ExpressionPointer ExpressionParser::parse_list() {
  ExpressionPointer e = make(ExpressionKind::kList, t_.take().at);
  while (!t_.take_operator("]")) {
    append(*e, parse_expression());
    if (!t_.sees_operator("]")) t_.expect_operator(",");
  }
  return e;
}

ExpressionPointer ExpressionParser::parse_dict() {
  ExpressionPointer e = make(ExpressionKind::kDict, t_.take().at);
  while (!t_.take_operator("}")) {
    append(*e, parse_expression());
    t_.expect_operator(":");
    append(*e, parse_expression());
    if (!t_.sees_operator("}")) t_.expect_operator(",");
  }
  return e;
}

ExpressionPointer ExpressionParser::parse_postfix(ExpressionPointer e) {
  for (;;) {
    if (t_.sees_operator(".") || t_.sees_operator("["))
      e = parse_subscript(std::move(e));
    else if (t_.sees_operator("("))
      e = parse_call(std::move(e));
    else
      return e;
  }
}

ExpressionPointer ExpressionParser::parse_filters(ExpressionPointer e) {
  for (;;) {
    if (t_.sees_operator("|"))
      e = parse_filter(std::move(e));
    else if (t_.sees_name("is"))
      e = parse_test(std::move(e));
    else if (t_.sees_operator("("))  // a call of what a filter returned
      e = parse_call(std::move(e));
    else
      return e;
  }
}

ExpressionPointer ExpressionParser::parse_filter(ExpressionPointer e) {
  t_.take();
  const Location at = t_.peek().at;
  ExpressionPointer filter = with(ExpressionKind::kFilter, at, std::move(e));
  filter->name = t_.expect_name("the name of a filter");
  filter->filter = find_filter(filter->name);
  if (filter->filter == nullptr)
    t_.fail(at, fmt::format("the filter '{}' is not supported", filter->name));
  if (t_.take_operator("(")) parse_arguments(*filter);
  check_named(*filter, t_);
  return filter;
}

ExpressionPointer ExpressionParser::parse_test(ExpressionPointer e) {
  t_.take();
  ExpressionPointer test = with(ExpressionKind::kTest, t_.peek().at, std::move(e));
  test->negated = t_.take_name("not");
  const Location at = t_.peek().at;
  test->name = t_.expect_name("the name of a test");
  test->test = find_test(test->name);
  if (test->test == nullptr) t_.fail(at, fmt::format("the test '{}' is not supported", test->name));
  if (t_.take_operator("(")) {
    parse_arguments(*test);
    return test;
  }
  // One argument may follow without parentheses: `is divisibleby 3`.
  const Token& next = t_.peek();
  const bool ends = t_.sees_name("else") || t_.sees_name("or") || t_.sees_name("and") ||
                    t_.sees_name("is") || t_.sees_name("if") || t_.sees_name("not") ||
                    t_.sees_name("in");
  const bool starts = next.kind == TokenKind::kString || next.kind == TokenKind::kInteger ||
                      next.kind == TokenKind::kReal || t_.sees_operator("[") ||
                      t_.sees_operator("{") || (next.kind == TokenKind::kName && !ends);
  if (starts) append(*test, parse_postfix(parse_primary()));
  return test;
}

ExpressionPointer ExpressionParser::parse_subscript(ExpressionPointer e) {
  const Location at = t_.peek().at;
  if (t_.take_operator(".")) {
    const Token name = t_.take();
    if (name.kind == TokenKind::kInteger)
      return with(ExpressionKind::kSubscript, at, std::move(e),
                  constant(Value(int64_t{std::stoll(name.text)}), name.at));
    if (name.kind != TokenKind::kName) t_.fail(name.at, "expected the name of an attribute");
    ExpressionPointer attribute = with(ExpressionKind::kAttribute, name.at, std::move(e));
    attribute->name = name.text;
    attribute->method = find_method(name.text);
    return attribute;
  }
  t_.take();
  // Up to three bounds separated by colons; one without a colon is a subscript.
  std::array<ExpressionPointer, 3> bounds;
  size_t colons = 0;
  while (!t_.sees_operator("]")) {
    if (t_.sees_operator(":")) {
      if (++colons > 2) t_.fail_unexpected("']'");
      t_.take();
    } else if (bounds[colons]) {
      t_.fail_unexpected("']' or ':'");
    } else {
      bounds[colons] = parse_expression();
    }
  }
  t_.take();
  if (colons == 0 && !bounds[0]) t_.fail(at, "the subscript is empty");
  if (colons == 0) return with(ExpressionKind::kSubscript, at, std::move(e), std::move(bounds[0]));
  ExpressionPointer slice = with(ExpressionKind::kSlice, at, std::move(e));
  for (ExpressionPointer& b : bounds) append(*slice, std::move(b));
  return slice;
}

ExpressionPointer ExpressionParser::parse_call(ExpressionPointer e) {
  const Location at = t_.take().at;
  const bool unknown = e->kind == ExpressionKind::kAttribute && !e->method;
  if (unknown) t_.fail(e->at, fmt::format("the method '{}' is not supported", e->name));
  ExpressionPointer call = with(ExpressionKind::kCall, at, std::move(e));
  parse_arguments(*call);
  return call;
}

// Parses arguments up to the closing parenthesis; the opening one has been consumed. As in Jinja,
// `*list` comes after the arguments by position, `**dictionary` is last, and each occurs once.
void ExpressionParser::parse_arguments(Expression& e) {
  bool has_list = false, has_dictionary = false;
  while (!t_.take_operator(")")) {
    const Location at = t_.peek().at;
    if (has_dictionary) t_.fail_unexpected("')' after the argument with '**'");
    has_dictionary = t_.take_operator("**");
    if (has_dictionary) {
      add_keyword(e, "", parse_expression());
    } else if (t_.peek().kind == TokenKind::kName && t_.sees(TokenKind::kOperator, "=", 1)) {
      std::string name = t_.take().text;
      t_.take();
      add_keyword(e, std::move(name), parse_expression());
    } else if (has_list) {
      t_.fail_unexpected("an argument with a name after the one with '*'");
    } else if (t_.take_operator("*")) {
      has_list = true;
      append(e, with(ExpressionKind::kUnpack, at, parse_expression()));
    } else if (!e.keywords.empty()) {
      t_.fail_unexpected("an argument with a name");
    } else {
      append(e, parse_expression());
    }
    if (!t_.sees_operator(")")) t_.expect_operator(",");
  }
}

}  // namespace tessera::jinja
