// Evaluates a parsed template.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <vector>

#include "base/tree.h"
#include "jinja/arguments.h"
#include "jinja/syntax.h"
#include "jinja/template.h"

namespace tessera::jinja {

// Walks the syntax tree. A scope is opened by each pass of a loop, each call of a macro and each
// `set` block; an assignment sets the variable in the innermost one, so it ends with that scope. A
// macro sees the variables of the whole template and its own.
class Interpreter {
 public:
  Interpreter(const Tree& variables, const std::optional<std::tm>& now);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Throws Fault; at() is then the location of the error.
  RenderedText run(const Block& body);
  const Location& at() const { return at_; }

 private:
  struct Scope {
    Scope* outer = nullptr;
    std::vector<Entry> variables;
  };
  // Counts a level while it exists. Throws Fault if there are too many.
  class Level {
   public:
    explicit Level(int& levels);
    ~Level() { --levels_; }
    Level(const Level&) = delete;
    Level& operator=(const Level&) = delete;

   private:
    int& levels_;
  };
  enum class Flow : uint8_t { kNext, kBreak, kContinue };

  Flow execute(const Block& block);
  Flow execute(const Statement& s);
  Flow execute_if(const Statement& s);
  Flow execute_for(const Statement& s);
  std::vector<Value> loop_items(const Statement& s);
  Flow execute_set_block(const Statement& s);
  Flow execute_generation(const Statement& s);
  void set(const Statement& s, const Value& value);
  void assign(const std::vector<std::string>& targets, const Value& value, Scope& scope);
  void write(std::string_view text);

  Value evaluate(const Expression& e);
  Value evaluate_name(const Expression& e);
  Value evaluate_dict(const Expression& e);
  Value evaluate_slice(const Expression& e);
  Value evaluate_compare(const Expression& e);
  Value evaluate_concat(const Expression& e);
  Value evaluate_call(const Expression& e);
  std::vector<Value> evaluate_all(const Expression& e, size_t from);
  Arguments arguments_of(const Expression& e);
  Value call_macro(const Statement& macro, const Arguments& arguments);
  Value call_function(Function function, const Arguments& arguments);

  std::string* out_ = nullptr;  // receives the output: result_.text, or that of a capture
  RenderedText result_;
  Scope root_;
  Scope* scope_ = &root_;
  Budget budget_;
  std::optional<std::tm> now_;
  Location at_;
  int calls_ = 0;   // macros being called
  int levels_ = 0;  // statements and expressions being evaluated, which the stack holds
  // All namespaces, which may refer to themselves and are cleared at the end.
  std::vector<Value::NamespacePointer> namespaces_;
};

// ---- Operations of interpreter_values.cc. All throw Fault.

// Returns x.name, and x[key].
Value attribute(const Value& v, const std::string& name, std::optional<MethodName> method);
Value subscript(const Value& v, const Value& key);
Value slice(const Value& v, const std::optional<int64_t>& start, const std::optional<int64_t>& stop,
            int64_t step);
Value binary(Operator op, const Value& a, const Value& b, Budget& budget);
bool compare(Operator op, const Value& a, const Value& b);
Value range_of(const Arguments& arguments, Budget& budget);
Value dict_of(const Arguments& arguments);

}  // namespace tessera::jinja
