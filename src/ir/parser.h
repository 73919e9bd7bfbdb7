// The parser of graphs and programs; only parse.cc includes it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ir/program.h"
#include "ir/token_reader.h"

namespace tessera {

class Parser : TokenReader {
 public:
  using TokenReader::TokenReader;

  Graph graph();
  Program program();

 private:
  template <class I>
  using Names = std::map<std::string, I, std::less<>>;

  // The id behind `mark`, less than `size`.
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
  FrameKindId kind(const Program& p) { return named(kind_names_, p.kinds, "a kind of frame"); }

  DType dtype() { return entry(dtype_from_name, "an element type"); }
  Shape shape();
  uint8_t per();
  Sharding sharding();
  Mesh mesh();
  Attributes::Constant constant();
  Attributes::Constant group();
  void wire(Wire& w);
  void values(ValueVector& list);
  void value_option(Value& v);
  Op op();
  void op_types(const Op& op);
  void ops(std::vector<Op>& list);
  Block block();
  void kinds(Program& p);
  void segments(Program& p);
  void segment_parameters(const Program& p, Segment& s);
  void frames(Program& p);
  void calls(Program& p);
  void call_option(const Program& p, Call& c);
  void fresh(const Program& p, Call& c);
  void call_ids(const char* wanted, std::vector<CallId>& list);

  ValueVector* values_ = nullptr;
  Names<ValueId> value_names_;
  Names<FrameKindId> kind_names_;
  Names<SegmentId> segment_names_;
  std::vector<std::pair<ValueId, size_t>> places_;  // value, token that names its frame kind
};

}  // namespace tessera
