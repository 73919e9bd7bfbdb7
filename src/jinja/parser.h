// Parses a template.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/syntax.h"

namespace tessera::jinja {

struct ParsedTemplate {
  Block body;
  bool has_generation = false;  // there is a {% generation %} block
};

// Throws Error with `source`, line and column if the text is not a template, or if it uses a
// statement, filter, test or method that is not supported; the message names it.
ParsedTemplate parse(std::string_view text, const std::string& source);

// Thrown by the parser of expressions for a tree of too many levels.
struct DeepExpression {
  Location at;
};

// ---- The two halves of the parser share the position in the tokens.

class TokenReader {
 public:
  TokenReader(std::vector<Token> tokens, const std::string& source)
      : tokens_(std::move(tokens)), source_(source) {}
  const Token& peek(size_t ahead = 0) const {
    return tokens_[std::min(at_ + ahead, tokens_.size() - 1)];
  }
  Token take() { return tokens_[std::min(at_++, tokens_.size() - 1)]; }
  bool sees(TokenKind kind, std::string_view text, size_t ahead = 0) const {
    return peek(ahead).kind == kind && peek(ahead).text == text;
  }
  bool sees_operator(std::string_view text) const { return sees(TokenKind::kOperator, text); }
  bool sees_name(std::string_view text) const { return sees(TokenKind::kName, text); }
  bool take_operator(std::string_view text);
  bool take_name(std::string_view text);
  void expect_operator(std::string_view text);
  std::string expect_name(std::string_view what);
  void expect_end_of_tag();
  [[noreturn]] void fail(const Location& at, const std::string& message) const;
  [[noreturn]] void fail_unexpected(std::string_view expected) const;

 private:
  std::vector<Token> tokens_;
  const std::string& source_;
  size_t at_ = 0;
};

// Jinja's precedence, from weak to strong: if-else, or, and, not, comparisons, + -, ~, * / // %,
// **, unary + -, then calls, subscripts, filters and tests.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenReader& tokens) : t_(tokens) {}
  ExpressionPointer parse_expression();
  // Parses an expression or several separated by commas, which are a tuple. Without `with_choice`,
  // an `if` ends the expression.
  ExpressionPointer parse_tuple(bool with_choice = true);

 private:
  ExpressionPointer parse_choice();
  ExpressionPointer parse_or();
  ExpressionPointer parse_and();
  ExpressionPointer parse_not();
  ExpressionPointer parse_comparison();
  ExpressionPointer parse_sum();
  ExpressionPointer parse_concat();
  ExpressionPointer parse_product();
  ExpressionPointer parse_power();
  ExpressionPointer parse_unary(bool with_filter = true);
  ExpressionPointer parse_primary();
  ExpressionPointer parse_parentheses();
  ExpressionPointer parse_list();
  ExpressionPointer parse_dict();
  ExpressionPointer parse_postfix(ExpressionPointer e);
  ExpressionPointer parse_filters(ExpressionPointer e);
  ExpressionPointer parse_filter(ExpressionPointer e);
  ExpressionPointer parse_test(ExpressionPointer e);
  ExpressionPointer parse_subscript(ExpressionPointer e);
  ExpressionPointer parse_call(ExpressionPointer e);
  void parse_arguments(Expression& e);

  TokenReader& t_;
  int depth_ = 0;
};

}  // namespace tessera::jinja
