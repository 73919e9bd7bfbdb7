// The parser of graphs and programs; only parse.cc and parse_op.cc, its ops, include it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/lexer.h"
#include "ir/program.h"

namespace tessera {

// Values, and what ids and names refer to.
class ValueParser : protected TokenReader {
 protected:
  using TokenReader::TokenReader;

  template <class I>
  using Names = std::map<std::string, I, std::less<>>;

  // Reads the id that follows `mark`; it must be less than `size`.
  template <class I>
  I id(char mark, size_t size, const char* wanted);
  void heading(const char* name) {
    word(name);
    line_end();
  }
  // The line of number `expected` of a list begins here.
  void numbered(char mark, size_t expected);

  ValueId value();
  std::vector<ValueId> value_list();
  // A name that only one entry of the list has, or `$` and the number of an entry.
  template <class I, class T>
  I named(const Names<I>& names, const IdVector<I, T>& list, const char* wanted);
  template <class I, class T>
  static Names<I> unique_names(const IdVector<I, T>& list);

  DType dtype() { return entry(dtype_from_name, "an element type"); }
  Shape shape();
  uint8_t per();
  Sharding sharding();
  Mesh mesh();
  GroupRef group();
  void values(ValueVector& list);
  void origins(ValueVector& list);
  void value_option(Value& v);
  void clip(Value& v);

  ValueVector* values_ = nullptr;
  Names<ValueId> value_names_;
  // A value, and the token that names its buffer kind, the value that it is a copy of, or the
  // scores that clip its rows.
  std::vector<std::pair<ValueId, size_t>> places_, origins_, clips_;
};

// Ops, with their attributes.
class OpParser : protected ValueParser {
 protected:
  using ValueParser::ValueParser;

  Op op();
  void ops(std::vector<Op>& list);
  void attribute(OpAttributes& attributes);
  void op_types(const Op& op);
  int32_t small_integer(const char* wanted);
  Chunk chunk();
  // The value of an attribute.
  void read(bool& x);
  void read(int64_t& x) { x = integer(); }
  void read(double& x) { x = number(); }
  void read(DType& t);
  void read(std::optional<DType>& t) { read(t.emplace()); }
  void read(Shape& s);
  void read(std::vector<double>& list);
  void read(GroupRef& g) { g = group(); }
  void read(BufferKindId& k);
  template <class E>
  requires std::is_enum_v<E>
  void read(E& e) { e = static_cast<E>(entry_of(enum_names(E()))); }
  // The index of a text among "first|second|…".
  int entry_of(std::string_view names);

  size_t kinds_ = 0;  // how many buffer kinds there are
  Names<BufferKindId> kind_names_;
};

// Graphs and programs.
class Parser : OpParser {
 public:
  using OpParser::OpParser;

  Graph graph();
  Program program();

 private:
  BufferKindId kind(const Program& p) { return named(kind_names_, p.kinds, "a buffer kind"); }
  Block block();
  void kinds(Program& p);
  void segments(Program& p);
  void segment_parameters(const Program& p, Segment& s);
  void buffers(Program& p);
  void calls(Program& p);
  void call_option(const Program& p, Call& c);
  void first_write(const Program& p, Call& c);
  void wire(CommSpec& w);
  void call_ids(const char* wanted, std::vector<CallId>& list);

  Names<SegmentId> segment_names_;
};

template <class I>
I ValueParser::id(char mark, size_t size, const char* wanted) {
  const Token& t = peek();
  if (t.kind != Token::kId || t.mark != mark) fail(t, wanted);
  if (!std::cmp_less(t.integer, size)) fail(t, fmt::format("{} below {}{}", wanted, mark, size));
  return I(next().integer);
}

}  // namespace tessera
