// The syntax tree of a template. Names of filters, tests and methods are resolved by the parser.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jinja/lexer.h"
#include "jinja/methods.h"
#include "jinja/value.h"

namespace tessera::jinja {

class Arguments;
class Budget;
using Filter = Value (*)(const Value& input, const Arguments& arguments, Budget& budget);
using TestFunction = bool (*)(const Value& input, const Arguments& arguments);

enum class Operator : uint8_t {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kPower,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn
};

enum class ExpressionKind : uint8_t {
  kConstant,   // constant
  kName,       // name
  kList,       // operands
  kTuple,      // operands
  kDict,       // operands: key, value, key, value, …
  kAttribute,  // operands[0].name; method: the method of that name, if there is one
  kSubscript,  // operands[0][operands[1]]
  kSlice,      // operands[0][operands[1]:operands[2]:operands[3]]; those missing are null
  kCall,       // operands[0](the others, keywords)
  kUnpack,     // *operands[0], only as an argument of a call, filter or test
  kFilter,     // operands[0] | filter(the others, keywords)
  kTest,       // operands[0] is test(the others); negated: is not
  kNegative,
  kPositive,
  kNot,
  kAnd,
  kOr,
  kChoice,   // operands[1] if operands[0] else operands[2], which may be null
  kConcat,   // operands, joined as text
  kBinary,   // operands[0] operators[0] operands[1]
  kCompare,  // operands[0] operators[0] operands[1] operators[1] operands[2] …
};

struct Expression;
using ExpressionPointer = std::unique_ptr<Expression>;

struct Expression {
  ExpressionKind kind = ExpressionKind::kConstant;
  Location at;
  Value constant;
  std::string name;
  std::vector<ExpressionPointer> operands;
  std::vector<std::pair<std::string, ExpressionPointer>> keywords;  // no name: **value
  std::vector<Operator> operators;
  Filter filter = nullptr;
  TestFunction test = nullptr;
  bool negated = false;
  std::optional<MethodName> method;
  int depth = 1;  // levels of the tree below, this one included
};

enum class StatementKind : uint8_t {
  kText,   // text
  kPrint,  // expressions[0]
  kIf,     // bodies[i] if expressions[i]; otherwise the last of bodies, if there is one more
  kFor,    // targets in expressions[0] if expressions[1] (may be null): bodies[0], else bodies[1]
  kSet,    // targets = expressions[0]; in_namespace: targets[0].targets[1]
  kSetBlock,    // targets = the text of bodies[0]
  kMacro,       // text: its name; parameters; bodies[0]
  kGeneration,  // bodies[0]
  kBreak,
  kContinue,
};

using Block = std::vector<std::unique_ptr<Statement>>;

struct Parameter {
  std::string name;
  ExpressionPointer value;  // the default; may be null
};

struct Statement {
  StatementKind kind = StatementKind::kText;
  Location at;
  std::string text;
  std::vector<std::string> targets;
  bool in_namespace = false;
  std::vector<ExpressionPointer> expressions;
  std::vector<Parameter> parameters;
  std::vector<Block> bodies;
};

}  // namespace tessera::jinja
