// Recursive-descent parser of the text that print.cc writes; the order of sections is fixed. Names
// are resolved as soon as the section that defines them is complete. The two references that point
// forward, from values and kinds to kinds, keep the position of their token and are resolved when
// the kinds have been read.
#include "ir/parse.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/error.h"
#include "ir/names.h"
#include "ir/parser.h"

namespace tessera {

void ValueParser::numbered(char mark, size_t expected) {
  const Token& t = peek();
  if (t.kind != Token::kId || t.mark != mark || !std::cmp_equal(t.integer, expected))
    fail(t, fmt::format("{}{}", mark, expected));
  next();
}

// Returns the names that occur once; a name that occurs several times identifies nothing.
template <class I, class T>
ValueParser::Names<I> ValueParser::unique_names(const IdVector<I, T>& list) {
  Names<I> names;
  for (const I id : list.ids()) {
    const auto [entry, made] = names.try_emplace(entry_name(list[id]), id);
    if (!made) entry->second = kNone;
  }
  return names;
}

template <class I, class T>
I ValueParser::named(const Names<I>& names, const IdVector<I, T>& list, const char* wanted) {
  if (peek().kind == Token::kId) return id<I>('$', list.size(), wanted);
  const auto found = peek().kind == Token::kWord ? names.find(peek().text) : names.end();
  if (found == names.end() || found->second == kNone) fail(peek(), wanted);
  next();
  return found->second;
}

// Parses a value: %N, a name that only one value has, or - for none.
ValueId ValueParser::value() {
  if (take_mark('-')) return kNone;
  if (peek().kind == Token::kId) return id<ValueId>('%', values_->size(), "a value");
  const auto found =
      peek().kind == Token::kWord ? value_names_.find(peek().text) : value_names_.end();
  if (found == value_names_.end() || found->second == kNone) fail(peek(), "the name of a value");
  next();
  return found->second;
}

std::vector<ValueId> ValueParser::value_list() {
  std::vector<ValueId> list = {value()};
  while (take_mark(',')) list.push_back(value());
  return list;
}

Shape ValueParser::shape() {
  std::vector<int64_t> dims;
  mark('[');
  if (!is_mark(']')) {
    do dims.push_back(integer());
    while (take_mark(','));
  }
  mark(']');
  return Shape(dims);
}

uint8_t ValueParser::per() {
  uint8_t p = kOne;
  do {
    if (take_word("layer"))
      p |= kPerLayer;
    else if (take_word("microbatch"))
      p |= kPerMicrobatch;
    else
      fail(peek(), "layer or microbatch");
  } while (take_mark(','));
  return p;
}

// place=tensor:0,shard:shared; axes that are not listed are replicated.
Sharding ValueParser::sharding() {
  Sharding s;
  do {
    const AxisKind axis = entry(axis_named, "an axis of the mesh");
    mark(':');
    int8_t& place = s.place[axis];
    if (peek().kind != Token::kInteger) {
      place = entry(place_named, "a dimension, shared, partial or partial_max");
      continue;
    }
    if (peek().integer < 0 || peek().integer > std::numeric_limits<int8_t>::max())
      fail(peek(), "a dimension");
    place = static_cast<int8_t>(integer());
  } while (take_mark(','));
  return s;
}

Mesh ValueParser::mesh() {
  Mesh m;
  do {
    const AxisKind axis = entry(axis_named, "an axis of the mesh");
    mark(':');
    if (peek().kind != Token::kInteger || peek().integer < 1) fail(peek(), "a number of ranks");
    m[axis] = integer();
  } while (take_mark(','));
  return m;
}

// Parses an option after the role; options are in any order. `in` names a buffer kind, which is
// defined only later.
void ValueParser::value_option(Value& v) {
  if (take_key("per"))
    v.indexed_by = per();
  else if (take_word("decays"))
    v.decays = true;
  else if (take_key("cut"))
    v.sharding.cut = entry(context_cut_named, "parts, zigzag or heads");
  else if (take_word("frozen"))
    v.frozen = true;
  else if (take_key("policy"))
    v.policy = integer();
  else if (take_key("std"))
    v.initial.std = number();
  else if (take_key("constant"))
    v.initial.constant = number();
  else if (take_key("whole"))
    v.parent = ParentSlice{name(), shape(), key_integer("first"), key_integer("copies")};
  else if (take_key("holds"))
    v.parts.push_back({name(), key_integer("dim"), key_integer("first"), key_integer("count")});
  else if (take_key("clips"))
    clip(v);
  else if (take_key("of"))
    origins_.emplace_back(values_->next_id(), at_), next();
  else if (take_key("place"))
    v.sharding.place = sharding().place;
  else if (take_key("part"))
    v.part = shape();
  else if (take_key("offset"))
    v.offset = integer();
  else if (take_word("own"))
    v.is_local_shard = true;
  else if (take_key("in"))
    places_.emplace_back(values_->next_id(), at_), next();
  else
    fail(peek(),
         "per=, decays, frozen, policy=, std=, constant=, whole=, holds=, clips=, of=, place=, "
         "cut=, "
         "part=, in= or offset=");
}

// clips=%N first=N last=N share=X, where the value %N may be defined later.
void ValueParser::clip(Value& v) {
  clips_.emplace_back(values_->next_id(), at_);
  next();
  v.clips.push_back({kNone, key_integer("first"), key_integer("last"), key_number("share")});
}

// %0 NAME DTYPE [SHAPE] ROLE options…, numbered from 0 without gaps.
void ValueParser::values(ValueVector& list) {
  values_ = &list;
  heading("values");
  while (peek().kind == Token::kId) {
    numbered('%', list.size());
    Value v;
    v.name = name();
    v.dtype = dtype();
    v.shape = shape();
    const auto role = [&](std::string_view word) { return role_named(word, v.name); };
    v.role = entry(role, "the role of a value");
    while (peek().kind != Token::kLineEnd) value_option(v);
    line_end();
    list.push_back(std::move(v));
  }
  value_names_ = unique_names(list);
}

// Sets copies and origins from the names and buffers of values, and from of= where the text has it.
void ValueParser::origins(ValueVector& list) {
  set_origins(list);
  const size_t here = at_;
  for (const auto& [v, token] : origins_) {
    at_ = token;
    list[v].of = id<ValueId>('%', list.size(), "a value");
  }
  std::map<ValueId, size_t> clips;
  for (const auto& [v, token] : clips_) {
    at_ = token;
    list[v].clips[clips[v]++].scores = id<ValueId>('%', list.size(), "a value");
  }
  at_ = here;
}

void OpParser::ops(std::vector<Op>& list) {
  while (is_mark('=', 1) || is_mark(',', 1) || is_mark('(')) list.push_back(op());
}

constexpr int64_t kMostLayersInText = 100'000;  // per block, so that no text needs much memory

// block NAME layers=N [at=L,… from= to= held= input= output= input_gradient= output_gradient=]
// [loss]
//   forward
//     ops
//   backward
//     ops
//   [weights
//     ops]
Block Parser::block() {
  Block b;
  word("block");
  b.name = name();
  const Token& count = peek(2);
  const int64_t layers = key_integer("layers");
  if (layers < 1 || layers > kMostLayersInText)
    fail(count, fmt::format("1 to {} layers", kMostLayersInText));
  if (take_key("at")) do
      b.at.push_back(integer());
    while (take_mark(','));
  if (take_key("from")) b.from = entry(stream_named, "hidden or source");
  if (take_key("to")) b.to = entry(stream_named, "hidden or source");
  if (take_key("held")) b.held = value_list();
  if (take_key("input")) b.input = value();
  if (take_key("output")) b.output = value();
  if (take_key("input_gradient")) b.input_gradient = value();
  if (take_key("output_gradient")) b.output_gradient = value();
  b.loss = take_word("loss");
  if (b.is_stack() && b.at.empty())
    for (int64_t l = 0; l < layers; ++l) b.at.push_back(l);
  if (b.count() != layers) fail(count, fmt::format("{} layers, as in at=", b.count()));
  line_end();
  heading("forward");
  ops(b.forward);
  heading("backward");
  ops(b.backward);
  if (take_word("weight_backward")) {
    line_end();
    ops(b.weights);
  }
  return b;
}

// $0 NAME bytes=N [per= state host like= stages=]: values
void Parser::kinds(Program& p) {
  heading("kinds");
  std::vector<std::pair<BufferKindId, size_t>>
      likes;  // a kind, and the token that names the other kind
  while (peek().kind == Token::kId) {
    numbered('$', p.kinds.size());
    BufferKind k;
    k.name = name();
    k.bytes = key_integer("bytes");
    if (take_key("per")) k.indexed_by = per();
    k.state = take_word("state");
    k.host = take_word("host");
    if (take_key("like")) likes.emplace_back(p.kinds.next_id(), at_), next();
    if (take_key("stages")) do
        k.stages.push_back(integer());
      while (take_mark(','));
    if (take_mark(':')) k.values = value_list();
    line_end();
    p.kinds.push_back(std::move(k));
  }
  kind_names_ = unique_names(p.kinds);
  kinds_ = p.kinds.size();
  // Forward references: continue at their tokens, then return.
  const size_t here = at_;
  for (const auto& [v, token] : places_) {
    at_ = token;
    p.values[v].buffer = kind(p);
  }
  for (const auto& [k, token] : likes) {
    at_ = token;
    p.kinds[k].like = kind(p);
  }
  at_ = here;
  origins(p.values);
  set_relations(p);
}

// read KIND, KIND … or write, add, update. An op may also begin with such a name (as the name of an
// output), but then a mark follows, not a name.
void Parser::segment_parameters(const Program& p, Segment& s) {
  while (peek().kind == Token::kWord && access_named(peek().text) &&
         (peek(1).kind == Token::kWord || peek(1).kind == Token::kId)) {
    const Access access = entry(access_named, "read, write, add or update");
    do s.buffers.push_back({kind(p), access});
    while (take_mark(','));
    line_end();
  }
}

// $0 NAME queue=Q scratch=N, then parameters, then ops. Phase and subject are part of the name.
void Parser::segments(Program& p) {
  heading("segments");
  while (peek().kind == Token::kId && peek().mark == '$') {
    numbered('$', p.segments.size());
    Segment s;
    s.set_name(name());
    if (!take_key("queue")) fail(peek(), "queue=");
    s.queue = entry(queue_named, "the name of a queue");
    s.scratch_bytes = key_integer("scratch");
    line_end();
    segment_parameters(p, s);
    ops(s.ops);
    p.segments.push_back(std::move(s));
  }
  segment_names_ = unique_names(p.segments);
}

// @0 KIND [layer= mb= offset=] [state]
void Parser::buffers(Program& p) {
  heading("buffers");
  while (peek().kind == Token::kId) {
    numbered('@', p.buffers.size());
    Buffer f;
    f.kind = kind(p);
    if (take_key("layer")) f.layer = integer();
    if (take_key("mb")) f.microbatch = integer();
    if (take_key("offset")) f.offset = integer();
    f.state = take_word("state");
    line_end();
    p.buffers.push_back(f);
  }
}

void Parser::call_ids(const char* wanted, std::vector<CallId>& list) {
  // References to later calls are checked at the end.
  constexpr size_t kAny = std::numeric_limits<int32_t>::max();
  do list.push_back(id<CallId>('#', kAny, wanted));
  while (take_mark(','));
}

// first_write=KIND,KIND for parameters that the call writes instead of adding to them, or
// first_write=- for none.
void Parser::first_write(const Program& p, Call& c) {
  const Segment& s = p.segment(c);
  c.first_write.assign(s.buffers.size(), false);
  if (take_mark('-')) return;
  do {
    const Token& at = peek();
    const BufferKindId wanted = kind(p);
    size_t i = 0;
    while (i < s.buffers.size() && s.buffers[i].kind != wanted) ++i;
    if (i == s.buffers.size()) fail(at, fmt::format("a kind that is a parameter of {}", s.name()));
    c.first_write[i] = true;
  } while (take_mark(','));
}

GroupRef ValueParser::group() {
  const Token& at = peek();
  const auto found = at.kind == Token::kString ? group_named(at.text) : std::nullopt;
  if (!found) fail(at, "a group of ranks");
  next();
  return *found;
}

// wire="PARTNERS":"KIND":"LABEL":BYTES, where partners are a group of ranks or stage:N.
void Parser::wire(CommSpec& w) {
  const Token& at = peek();
  const std::string partners = name();
  if (partners.starts_with(kPeerPrefix)) {
    const char* const end = partners.data() + partners.size();
    const auto [stop, error] = std::from_chars(partners.data() + kPeerPrefix.size(), end, w.peer);
    if (error != std::errc() || stop != end) fail(at, "stage: and its number");
  } else {
    const auto found = group_named(partners);
    if (!found) fail(at, "a group of ranks or a stage");
    w.over = *found;
  }
  mark(':');
  const auto kind = peek().kind == Token::kString ? comm_kind_named(peek().text) : std::nullopt;
  if (!kind) fail(peek(), "the kind of a message or collective");
  w.kind = *kind;
  next();
  mark(':');
  w.label = name();
  mark(':');
  w.bytes = integer();
}

void Parser::call_option(const Program& p, Call& c) {
  if (take_key("layer")) {
    c.layer = integer();
  } else if (take_key("mb")) {
    c.microbatch = integer();
  } else if (take_key("buffers")) {
    do c.buffers.push_back(id<BufferId>('@', p.buffers.size(), "a buffer"));
    while (take_mark(','));
  } else if (take_key("first_write")) {
    first_write(p, c);
  } else if (take_key("wire")) {
    wire(c.comm);
  } else if (take_key("after")) {
    call_ids("a call", c.after);
  } else if (take_key("before_step")) {
    call_ids("a call", c.before_step);
  } else {
    fail(peek(), "layer=, mb=, buffers=, first_write=, wire=, after= or before_step=");
  }
}

// #0 SEGMENT options… A call may wait for a later one, so waits are checked at the end.
void Parser::calls(Program& p) {
  heading("calls");
  while (peek().kind == Token::kId) {
    const Token& at = peek();
    numbered('#', p.schedule.size());
    Call c;
    c.segment = named(segment_names_, p.segments, "a segment");
    while (peek().kind != Token::kLineEnd) call_option(p, c);
    if (c.buffers.size() != p.segment(c).buffers.size())
      fail(at, fmt::format("{} buffers, one per parameter of {} (this call has {})",
                           p.segment(c).buffers.size(), p.segment(c).name(), c.buffers.size()));
    line_end();
    p.schedule.push_back(std::move(c));
  }
  for (const Call& c : p.schedule)
    for (const auto* waits : {&c.after, &c.before_step})
      for (const CallId y : *waits)
        if (!p.schedule.contains(y))
          throw Error("{}: found a wait for call #{}, expected one below #{}", source_, y,
                      p.schedule.size());
}

Graph Parser::graph() {
  Graph g;
  word("graph");
  g.sequences = key_integer("sequences");
  g.tokens = key_integer("tokens");
  if (take_key("source")) g.encoder_tokens = integer();
  if (take_key("mesh")) g.mesh = mesh();
  line_end();
  values(g.values);
  origins(g.values);
  if (take_word("memory")) {
    if (take_key("is")) g.encoder_output = value();
    if (take_key("gradient")) g.encoder_output_gradient = value();
    line_end();
  }
  while (peek().kind != Token::kEnd) g.blocks.push_back(block());
  // A graph has no buffer kinds, so none of its values may name one.
  if (!places_.empty()) fail(tokens_[places_[0].second], "a value without buffer in a graph");
  return g;
}

Program Parser::program() {
  Program p;
  word("program");
  p.name = name();
  p.state_bytes = key_integer("state");
  p.scratch_offset = key_integer("scratch");
  p.bytes = key_integer("bytes");
  p.live_bytes = key_integer("live");
  if (take_key("host")) p.host_bytes = integer();
  if (take_key("mesh")) p.mesh = mesh();
  if (take_key("stage")) p.stage = integer();
  if (take_key("transfers")) {
    word("ordered");
    p.ordered_transfers = true;
  }
  line_end();
  values(p.values);
  kinds(p);
  segments(p);
  buffers(p);
  calls(p);
  if (peek().kind != Token::kEnd) fail(peek(), "the end of the text");
  return p;
}

Graph parse_graph(std::string_view text, const std::string& source) {
  return Parser(text, source).graph();
}

Program parse_program(std::string_view text, const std::string& source) {
  return Parser(text, source).program();
}

}  // namespace tessera
