// Parses the statements of a template. Statements of Jinja that chat templates do not use are
// rejected by name, as are macros inside loops and macros, and generation blocks whose text would
// not be part of the output at that position.
//
// Recursive descent with one token of lookahead (two for `not in` and `ns.x = …`). Blocks are
// parsed up to one of the names that may end them, which the caller consumes: `{% else %}` ends the
// body of an `if` and of a `for` alike. Nesting is limited, because each level is a frame of the
// C++ stack here, in the interpreter and in the destructor of the tree.
//
// Filters, tests and methods are looked up here and not during evaluation. A template that uses one
// that is missing is rejected when it is read, even if the branch with it rarely runs.
#include "jinja/parser.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/utf8.h"

namespace tessera::jinja {
namespace {

constexpr int kMostNested = 100;

std::string described(const Token& token) {
  switch (token.kind) {
    case TokenKind::kText:
      return "text";
    case TokenKind::kBlockBegin:
      return "'{%'";
    case TokenKind::kBlockEnd:
      return "'%}'";
    case TokenKind::kPrintBegin:
      return "'{{'";
    case TokenKind::kPrintEnd:
      return "'}}'";
    case TokenKind::kEnd:
      return "the end of the template";
    default:
      return fmt::format("'{}'", printable(token.text));
  }
}

class StatementParser {
 public:
  StatementParser(std::vector<Token> tokens, const std::string& source)
      : t_(std::move(tokens), source), expressions_(t_) {}

  ParsedTemplate run() {
    ParsedTemplate parsed;
    parsed.body = parse_block({});
    parsed.has_generation = has_generation_;
    return parsed;
  }

 private:
  using Ends = std::initializer_list<std::string_view>;
  using StatementPointer = std::unique_ptr<Statement>;

  StatementPointer make(StatementKind kind, const Location& at) {
    auto s = std::make_unique<Statement>();
    s->kind = kind;
    s->at = at;
    return s;
  }

  Block parse_block(Ends ends);
  Block parse_body(Ends ends);
  StatementPointer parse_print();
  StatementPointer parse_statement();
  StatementPointer parse_if(const Location& at);
  StatementPointer parse_for(const Location& at);
  StatementPointer parse_set(const Location& at);
  StatementPointer parse_macro(const Location& at);
  StatementPointer parse_generation(const Location& at);
  StatementPointer parse_loop_control(StatementKind kind, const Token& name);
  std::vector<std::string> parse_targets();
  std::string take_end();

  TokenReader t_;
  ExpressionParser expressions_;
  bool has_generation_ = false;
  int depth_ = 0, loops_ = 0, captures_ = 0;  // statements, loops and captures that are open
};

// Parses up to a statement whose name is in `ends`, without consuming its {% and name; without
// ends, up to the end of the template.
Block StatementParser::parse_block(Ends ends) {
  if (++depth_ > kMostNested)
    t_.fail(t_.peek().at, fmt::format("statements are nested more than {} deep", kMostNested));
  Block block;
  for (;;) {
    const Token& next = t_.peek();
    if (next.kind == TokenKind::kEnd) {
      if (ends.size() != 0) t_.fail(next.at, fmt::format("'{}' is missing", *(ends.end() - 1)));
      break;
    }
    if (next.kind == TokenKind::kText) {
      block.push_back(make(StatementKind::kText, next.at));
      block.back()->text = t_.take().text;
    } else if (next.kind == TokenKind::kPrintBegin) {
      block.push_back(parse_print());
    } else {
      const bool is_end = std::any_of(ends.begin(), ends.end(), [&](std::string_view end) {
        return t_.sees(TokenKind::kName, end, 1);
      });
      if (is_end) break;
      block.push_back(parse_statement());
    }
  }
  --depth_;
  return block;
}

// Consumes {% and the name of the statement that ended a block, and returns the name.
std::string StatementParser::take_end() {
  t_.take();
  return t_.take().text;
}

// Parses a block and the whole statement that ends it.
Block StatementParser::parse_body(Ends ends) {
  Block body = parse_block(ends);
  take_end();
  // A name may follow, as in {% endmacro render %}.
  if (t_.peek().kind == TokenKind::kName) t_.take();
  t_.expect_end_of_tag();
  return body;
}

std::unique_ptr<Statement> StatementParser::parse_print() {
  StatementPointer s = make(StatementKind::kPrint, t_.take().at);
  s->at = t_.peek().at;
  s->expressions.push_back(expressions_.parse_tuple());
  if (t_.peek().kind != TokenKind::kPrintEnd) t_.fail_unexpected("'}}'");
  t_.take();
  return s;
}

std::unique_ptr<Statement> StatementParser::parse_statement() {
  t_.take();
  const Token name = t_.take();
  if (name.kind != TokenKind::kName) t_.fail(name.at, "expected the name of a statement");
  if (name.text == "if") return parse_if(name.at);
  if (name.text == "for") return parse_for(name.at);
  if (name.text == "set") return parse_set(name.at);
  if (name.text == "macro") return parse_macro(name.at);
  if (name.text == "generation") return parse_generation(name.at);
  if (name.text == "break") return parse_loop_control(StatementKind::kBreak, name);
  if (name.text == "continue") return parse_loop_control(StatementKind::kContinue, name);
  constexpr std::array kEnds{"endif",         "endfor", "endset", "endmacro",
                             "endgeneration", "else",   "elif"};
  if (std::find(kEnds.begin(), kEnds.end(), name.text) != kEnds.end())
    t_.fail(name.at, fmt::format("'{}' ends no open statement", name.text));
  t_.fail(name.at, fmt::format("the statement '{}' is not supported", name.text));
}

std::unique_ptr<Statement> StatementParser::parse_if(const Location& at) {
  StatementPointer s = make(StatementKind::kIf, at);
  s->expressions.push_back(expressions_.parse_tuple());
  t_.expect_end_of_tag();
  for (;;) {
    s->bodies.push_back(parse_block({"elif", "else", "endif"}));
    const std::string end = take_end();
    if (end == "elif") {
      s->expressions.push_back(expressions_.parse_tuple());
      t_.expect_end_of_tag();
      continue;
    }
    t_.expect_end_of_tag();
    if (end == "else") s->bodies.push_back(parse_body({"endif"}));
    return s;
  }
}

std::vector<std::string> StatementParser::parse_targets() {
  const bool parentheses = t_.take_operator("(");
  std::vector<std::string> names{t_.expect_name("the name of a variable")};
  while (t_.take_operator(",")) names.push_back(t_.expect_name("the name of a variable"));
  if (parentheses) t_.expect_operator(")");
  return names;
}

std::unique_ptr<Statement> StatementParser::parse_for(const Location& at) {
  StatementPointer s = make(StatementKind::kFor, at);
  s->targets = parse_targets();
  if (!t_.take_name("in")) t_.fail_unexpected("'in'");
  s->expressions.push_back(expressions_.parse_tuple(false));
  s->expressions.push_back(t_.take_name("if") ? expressions_.parse_expression() : nullptr);
  if (t_.sees_name("recursive")) t_.fail(t_.peek().at, "'recursive' is not supported");
  t_.expect_end_of_tag();
  ++loops_;
  s->bodies.push_back(parse_block({"else", "endfor"}));
  --loops_;
  const std::string end = take_end();
  t_.expect_end_of_tag();
  if (end == "else") s->bodies.push_back(parse_body({"endfor"}));
  return s;
}

std::unique_ptr<Statement> StatementParser::parse_set(const Location& at) {
  StatementPointer s = make(StatementKind::kSet, at);
  if (t_.peek().kind == TokenKind::kName && t_.sees(TokenKind::kOperator, ".", 1)) {
    s->in_namespace = true;
    s->targets.push_back(t_.take().text);
    t_.take();
    s->targets.push_back(t_.expect_name("the name of an attribute"));
  } else {
    s->targets = parse_targets();
  }
  if (t_.take_operator("=")) {
    s->expressions.push_back(expressions_.parse_tuple());
    t_.expect_end_of_tag();
    return s;
  }
  if (t_.sees_operator("|")) t_.fail(t_.peek().at, "a filter of a `set` block is not supported");
  s->kind = StatementKind::kSetBlock;
  t_.expect_end_of_tag();
  ++captures_;
  s->bodies.push_back(parse_body({"endset"}));
  --captures_;
  return s;
}

std::unique_ptr<Statement> StatementParser::parse_macro(const Location& at) {
  StatementPointer s = make(StatementKind::kMacro, at);
  if (loops_ > 0 || captures_ > 0)
    t_.fail(at, "a macro inside a loop, a macro or a `set` block is not supported");
  s->text = t_.expect_name("the name of the macro");
  t_.expect_operator("(");
  while (!t_.take_operator(")")) {
    Parameter p;
    p.name = t_.expect_name("the name of an argument");
    if (t_.take_operator("=")) p.value = expressions_.parse_expression();
    s->parameters.push_back(std::move(p));
    if (!t_.sees_operator(")")) t_.expect_operator(",");
  }
  t_.expect_end_of_tag();
  ++captures_;
  s->bodies.push_back(parse_body({"endmacro"}));
  --captures_;
  return s;
}

std::unique_ptr<Statement> StatementParser::parse_generation(const Location& at) {
  if (captures_ > 0)
    t_.fail(at,
            "'generation' inside a macro, a `set` block or another 'generation' is not "
            "supported");
  StatementPointer s = make(StatementKind::kGeneration, at);
  has_generation_ = true;
  t_.expect_end_of_tag();
  // Counted as a capture, so that blocks do not nest.
  ++captures_;
  s->bodies.push_back(parse_body({"endgeneration"}));
  --captures_;
  return s;
}

std::unique_ptr<Statement> StatementParser::parse_loop_control(StatementKind kind,
                                                               const Token& name) {
  if (loops_ == 0) t_.fail(name.at, fmt::format("'{}' outside a loop", name.text));
  t_.expect_end_of_tag();
  return make(kind, name.at);
}

}  // namespace

bool TokenReader::take_operator(std::string_view text) {
  if (!sees_operator(text)) return false;
  ++at_;
  return true;
}

bool TokenReader::take_name(std::string_view text) {
  if (!sees_name(text)) return false;
  ++at_;
  return true;
}

void TokenReader::expect_operator(std::string_view text) {
  if (!take_operator(text)) fail_unexpected(fmt::format("'{}'", text));
}

std::string TokenReader::expect_name(std::string_view what) {
  if (peek().kind != TokenKind::kName) fail_unexpected(what);
  return take().text;
}

void TokenReader::expect_end_of_tag() {
  if (peek().kind != TokenKind::kBlockEnd) fail_unexpected("'%}'");
  ++at_;
}

void TokenReader::fail(const Location& at, const std::string& message) const {
  throw Error("{}:{}:{}: {}", source_, at.line, at.column, message);
}

void TokenReader::fail_unexpected(std::string_view expected) const {
  fail(peek().at, fmt::format("found {}, expected {}", described(peek()), expected));
}

ParsedTemplate parse(std::string_view text, const std::string& source) {
  try {
    return StatementParser(tokenize(text, source), source).run();
  } catch (const DeepExpression& deep) {
    throw Error("{}:{}:{}: the expression is nested too deeply", source, deep.at.line,
                deep.at.column);
  }
}

}  // namespace tessera::jinja
