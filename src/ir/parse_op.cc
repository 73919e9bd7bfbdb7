// Parses ops. Attributes are read by the fields of the op's type, which are also what the printer
// uses.
#include <algorithm>
#include <charconv>
#include <limits>

#include "base/config.h"
#include "ir/names.h"
#include "ir/parser.h"

namespace tessera {

// OUTPUTS = KIND (INPUTS) attributes… [workspace= packed= queue= at=] [: types of the outputs]
Op OpParser::op() {
  Op op;
  if (take_mark('('))
    mark(')');
  else
    op.outputs = value_list();
  mark('=');
  op.attributes = default_attributes(entry(op_kind_named, "the name of an op"));
  mark('(');
  if (!is_mark(')')) op.inputs = value_list();
  mark(')');
  while (peek().kind == Token::kWord) {
    if (take_key("workspace"))
      op.workspace = value();
    else if (take_key("packed"))
      op.packed = value();
    else if (take_key("queue"))
      op.queue = entry(queue_named, "the name of a queue");
    else if (take_key("after"))
      do op.after.push_back(small_integer("the index of an op"));
      while (take_mark(','));
    else if (take_key("chunk"))
      op.chunk = chunk();
    else if (take_key("at"))
      op.origin = name();
    else
      attribute(op.attributes);
  }
  set_relations(op);
  op_types(op);
  line_end();
  return op;
}

int32_t OpParser::small_integer(const char* wanted) {
  const Token& t = peek();
  if (t.kind != Token::kInteger || t.integer < 0 || t.integer > std::numeric_limits<int32_t>::max())
    fail(t, wanted);
  return static_cast<int32_t>(integer());
}

Chunk OpParser::chunk() {
  const Token& at = peek();
  Chunk c;
  c.index = small_integer("the index of a chunk");
  mark(':');
  c.count = small_integer("the number of chunks");
  if (c.count < 1 || c.index >= c.count) fail(at, "the index of a chunk, ':' and their number");
  return c;
}

// The types after the colon repeat the list of values for human readers; they must agree with it.
void OpParser::op_types(const Op& op) {
  if (!take_mark(':')) return;
  for (size_t i = 0; i < op.outputs.size(); ++i) {
    if (i > 0) mark(',');
    const Token& at = peek();
    const DType type = dtype();
    const Shape made = shape();
    if (op.outputs[i] == kNone) fail(at, "no type for no value");
    const Value& v = (*values_)[op.outputs[i]];
    if (type != v.dtype || made != v.shape)
      fail(at, fmt::format("{} {}, the type of {}", name_of(v.dtype), to_string(v.shape), v.name));
  }
}

// Visits all fields of the op's type; the names passed on the way are listed if none matches.
void OpParser::attribute(OpAttributes& attributes) {
  const Token& key = peek();
  std::string known;
  bool found = false;
  const auto read_if_named = [&](const char* name, auto& field, Print when = Print::kUnlessDefault,
                                 const Range& = {}) {
    if (when == Print::kNever) return;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
    if (found || !take_key(name)) return;
    read(field);
    found = true;
  };
  std::visit(
      [&]<class A>(A& a) {
        A::fields(a, read_if_named);
        if (!found)
          fail(key, fmt::format("an attribute of {} ({})", A::kName,
                                known.empty() ? "it has none" : known));
      },
      attributes);
}

void OpParser::read(bool& x) {
  if (peek().kind != Token::kInteger || peek().integer < 0 || peek().integer > 1)
    fail(peek(), "0 or 1");
  x = integer() == 1;
}

void OpParser::read(DType& t) {
  const auto found = peek().kind == Token::kString ? dtype_from_name(peek().text) : std::nullopt;
  if (!found) fail(peek(), "an element type in quotes");
  next();
  t = *found;
}

// "2x64x768"
void OpParser::read(Shape& s) {
  const Token& token = peek();
  std::vector<int64_t> dims;
  const char *at = token.text.data(), *const end = at + token.text.size();
  bool good = token.kind == Token::kString;
  while (good && at != end) {
    const auto [stop, error] = std::from_chars(at, end, dims.emplace_back());
    good = error == std::errc() && dims.back() >= 0 &&
           (stop == end || (*stop == 'x' && stop + 1 != end));
    at = stop == end ? end : stop + 1;
  }
  if (!good) fail(token, "extents such as \"2x64x768\"");
  next();
  s = Shape(dims);
}

// [1.0, 2.5]
void OpParser::read(std::vector<double>& list) {
  mark('[');
  list.clear();
  if (take_mark(']')) return;
  do list.push_back(number());
  while (take_mark(','));
  mark(']');
}

void OpParser::read(BufferKindId& k) {
  if (peek().kind == Token::kId) {
    k = id<BufferKindId>('$', kinds_, "a buffer kind");
    return;
  }
  const auto found =
      peek().kind == Token::kString ? kind_names_.find(peek().text) : kind_names_.end();
  if (found == kind_names_.end() || found->second == kNone) fail(peek(), "a buffer kind");
  next();
  k = found->second;
}

// `names` are the enumerators in order, separated by '|'.
int OpParser::entry_of(std::string_view names) {
  const auto entries = std::count(names.begin(), names.end(), '|') + 1;
  for (int i = 0; i < entries && peek().kind == Token::kString; ++i)
    if (enum_name(names, i) == peek().text) {
      next();
      return i;
    }
  fail(peek(), fmt::format("one of {}", names));
}

}  // namespace tessera
