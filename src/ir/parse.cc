#include "ir/parse.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "base/error.h"
#include "ir/names.h"
#include "ir/parser.h"
#include "ir/relations.h"

namespace tessera {

void ValueParser::numbered(char mark, size_t expected) {
  const Token& t = peek();
  if (t.kind != Token::kId || t.mark != mark || t.integer != static_cast<int64_t>(expected))
    fail(t, fmt::format("{}{}", mark, expected));
  next();
}

// Names that stand once; the others are no names.
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

Sharding ValueParser::sharding() {
  Sharding s;
  do {
    const AxisKind axis = entry(axis_named, "an axis of the mesh");
    mark(':');
    int8_t& place = s.place[static_cast<size_t>(axis)];
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

void ValueParser::value_option(Value& v) {
  if (take_key("per"))
    v.per = per();
  else if (take_word("decays"))
    v.decays = true;
  else if (take_word("frozen"))
    v.frozen = true;
  else if (take_key("std"))
    v.initial.std = number();
  else if (take_key("constant"))
    v.initial.constant = number();
  else if (take_key("whole"))
    v.whole = PartOf{name(), shape(), key_integer("first"), key_integer("copies")};
  else if (take_key("holds"))
    v.parts.push_back({name(), key_integer("dim"), key_integer("first"), key_integer("count")});
  else if (take_key("place"))
    v.sharding = sharding();
  else if (take_key("part"))
    v.part = shape();
  else if (take_key("offset"))
    v.offset = integer();
  else if (take_word("own"))
    v.own = true;
  else if (take_key("in"))
    places_.emplace_back(values_->next_id(), at_), next();
  else
    fail(peek(),
         "per=, decays, frozen, std=, constant=, whole=, holds=, place=, part=, in= or offset=");
}

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
  set_origins(list);
}

void OpParser::ops(std::vector<Op>& list) {
  while (is_mark('=', 1) || is_mark(',', 1) || is_mark('(')) list.push_back(op());
}

Block Parser::block() {
  Block b;
  word("block");
  b.name = name();
  b.layers = key_integer("layers");
  if (take_key("from")) b.from = entry(stream_named, "hidden or source");
  if (take_key("to")) b.to = entry(stream_named, "hidden or source");
  if (take_key("held")) b.held = value_list();
  if (take_key("input")) b.input = value();
  if (take_key("output")) b.output = value();
  if (take_key("input_gradient")) b.input_gradient = value();
  if (take_key("output_gradient")) b.output_gradient = value();
  b.loss = take_word("loss");
  line_end();
  heading("forward");
  ops(b.forward);
  heading("backward");
  ops(b.backward);
  if (take_word("weights")) {
    line_end();
    ops(b.weights);
  }
  return b;
}

void Parser::kinds(Program& p) {
  heading("kinds");
  std::vector<std::pair<FrameKindId, size_t>>
      likes;  // of a kind, and the token that names the other
  while (peek().kind == Token::kId) {
    numbered('$', p.kinds.size());
    FrameKind k;
    k.name = name();
    k.bytes = key_integer("bytes");
    if (take_key("per")) k.per = per();
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
  const size_t here = at_;
  for (const auto& [v, token] : places_) {
    at_ = token;
    p.values[v].frame = kind(p);
  }
  for (const auto& [k, token] : likes) {
    at_ = token;
    p.kinds[k].like = kind(p);
  }
  at_ = here;
  set_relations(p);
}

void Parser::segment_parameters(const Program& p, Segment& s) {
  while (peek().kind == Token::kWord && access_named(peek().text) &&
         (peek(1).kind == Token::kWord || peek(1).kind == Token::kId)) {
    const Access access = entry(access_named, "read, write, add or update");
    do s.frames.push_back({kind(p), access});
    while (take_mark(','));
    line_end();
  }
}

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

void Parser::frames(Program& p) {
  heading("frames");
  while (peek().kind == Token::kId) {
    numbered('@', p.frames.size());
    Frame f;
    f.kind = kind(p);
    if (take_key("layer")) f.layer = integer();
    if (take_key("mb")) f.microbatch = integer();
    if (take_key("offset")) f.offset = integer();
    f.state = take_word("state");
    line_end();
    p.frames.push_back(f);
  }
}

void Parser::call_ids(const char* wanted, std::vector<CallId>& list) {
  constexpr size_t kAny = std::numeric_limits<int32_t>::max();  // calls to come are checked later
  do list.push_back(id<CallId>('#', kAny, wanted));
  while (take_mark(','));
}

void Parser::fresh(const Program& p, Call& c) {
  const Segment& s = p.segment(c);
  c.fresh.assign(s.frames.size(), false);
  if (take_mark('-')) return;
  do {
    const Token& at = peek();
    const FrameKindId wanted = kind(p);
    size_t i = 0;
    while (i < s.frames.size() && s.frames[i].kind != wanted) ++i;
    if (i == s.frames.size()) fail(at, fmt::format("a kind that {} takes", s.name()));
    c.fresh[i] = true;
  } while (take_mark(','));
}

GroupRef ValueParser::group() {
  const Token& at = peek();
  const auto found = at.kind == Token::kString ? group_named(at.text) : std::nullopt;
  if (!found) fail(at, "a group of ranks");
  next();
  return *found;
}

void Parser::wire(Wire& w) {
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
  const auto kind = peek().kind == Token::kString ? wire_kind_named(peek().text) : std::nullopt;
  if (!kind) fail(peek(), "what is communicated");
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
  } else if (take_key("frames")) {
    do c.frames.push_back(id<FrameId>('@', p.frames.size(), "a frame"));
    while (take_mark(','));
  } else if (take_key("fresh")) {
    fresh(p, c);
  } else if (take_key("wire")) {
    wire(c.wire);
  } else if (take_key("after")) {
    call_ids("a call", c.after);
  } else if (take_key("before_step")) {
    call_ids("a call", c.before_step);
  } else {
    fail(peek(), "layer=, mb=, frames=, fresh=, wire=, after= or before_step=");
  }
}

void Parser::calls(Program& p) {
  heading("calls");
  while (peek().kind == Token::kId) {
    const Token& at = peek();
    numbered('#', p.schedule.size());
    Call c;
    c.segment = named(segment_names_, p.segments, "a segment");
    while (peek().kind != Token::kLineEnd) call_option(p, c);
    if (c.frames.size() != p.segment(c).frames.size())
      fail(at, fmt::format("{} frames, as {} takes (this call has {})", p.segment(c).frames.size(),
                           p.segment(c).name(), c.frames.size()));
    line_end();
    p.schedule.push_back(std::move(c));
  }
  for (const Call& c : p.schedule)
    for (const auto* waits : {&c.after, &c.before_step})
      for (const CallId y : *waits)
        if (!p.schedule.contains(y))
          throw Error("{}: found a wait for call #{}, wanted one below #{}", source_, y,
                      p.schedule.size());
}

Graph Parser::graph() {
  Graph g;
  word("graph");
  g.sequences = key_integer("sequences");
  g.tokens = key_integer("tokens");
  if (take_key("source")) g.source = integer();
  if (take_key("mesh")) g.mesh = mesh();
  line_end();
  values(g.values);
  if (take_word("memory")) {
    if (take_key("is")) g.memory = value();
    if (take_key("gradient")) g.memory_gradient = value();
    line_end();
  }
  while (peek().kind != Token::kEnd) g.blocks.push_back(block());
  // A graph has no kinds of frames: its values stand nowhere yet.
  if (!places_.empty()) fail(tokens_[places_[0].second], "a value without frame in a graph");
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
  frames(p);
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
