// Prints graphs and programs as text that parse.cc reads back. Entities are named by name where the
// name is unique and an identifier, else by number (%value, $kind or segment, @buffer, #call), so
// the text is readable and still unambiguous.
//
//   program train state=59904 scratch=59904 bytes=184704 live=184704
//   values
//     %0 batch.tokens i32 [1, 16] batch per=microbatch in=batch offset=0
//   kinds
//     $1 layer.weights bytes=14336 per=layer state: layer.norm1.gain, …
//   segments
//     $0 forward.embed queue=compute scratch=0
//       read embed.weights, batch
//       write hidden'
//       %7 = embedding (batch.tokens, embed.weight) at=embed.tokens : f32 [1, 16, 16]
//   buffers
//     @13 hidden layer=0 mb=0 offset=179584
//   calls
//     #2 forward.layer layer=0 mb=0 buffers=@1,@11,@13,@14,@15 first_write=-
#include "ir/print.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "base/config.h"
#include "base/count.h"
#include "base/error.h"
#include "ir/names.h"

namespace tessera {
namespace {

bool is_word(const std::string& s) {
  const auto letter = [](unsigned char c) { return std::isalpha(c) || c == '_'; };
  if (s.empty() || !letter(s[0])) return false;
  return std::all_of(s.begin(), s.end(), [&](unsigned char c) {
    return letter(c) || std::isdigit(c) || c == '.' || c == '\'';
  });
}

std::string quoted(const std::string& s) {
  std::string q(1, '"');
  for (const char c : s) {
    if (c == '"' || c == '\\') q += '\\';
    if (c == '\n')
      q += "\\n";
    else
      q += c;
  }
  q += '"';
  return q;
}

std::string name(const std::string& s) { return is_word(s) ? s : quoted(s); }

// Texts of attributes. Those that refer to a program are in Printer.
std::string constant(bool x) { return x ? "1" : "0"; }
std::string constant(int64_t x) { return fmt::format("{}", x); }
std::string constant(double x) { return exact_text(x); }
std::string constant(DType t) { return quoted(std::string(name_of(t))); }
std::string constant(const std::optional<DType>& t) { return t ? constant(*t) : ""; }
std::string constant(const Shape& s) { return quoted(fmt::format("{}", fmt::join(s.dims(), "x"))); }
std::string constant(const std::vector<double>& list) {
  std::vector<std::string> texts;
  for (const double x : list) texts.push_back(exact_text(x));
  return fmt::format("[{}]", fmt::join(texts, ", "));
}
std::string constant(const GroupRef& g) { return quoted(to_string(g)); }
template <class E>
requires std::is_enum_v<E> std::string constant(E e) { return quoted(name_of_entry(e)); }

// Counts the entries per name. A name that only one entry has identifies it.
template <class I, class T>
std::map<std::string, int> count_names(const IdVector<I, T>& list) {
  std::map<std::string, int> count;
  for (const T& t : list) ++count[entry_name(t)];
  return count;
}

class Printer {
 public:
  Printer(const ValueVector& values, const IdVector<BufferKindId, BufferKind>& kinds,
          const IdVector<SegmentId, Segment>& segments)
      : values_(values),
        kinds_(kinds),
        segments_(segments),
        value_names_(count_names(values)),
        kind_names_(count_names(kinds)),
        segment_names_(count_names(segments)) {}

  void graph(const Graph& g) {
    out_ = fmt::format("graph sequences={} tokens={}", g.sequences, g.tokens);
    if (g.encoder_tokens != 0) say(" source={}", g.encoder_tokens);
    mesh(g.mesh);
    out_ += '\n';
    values();
    memory(g);
    for (const Block& b : g.blocks) block(b);
  }
  void memory(const Graph& g) {
    if (g.encoder_output == kNone) return;
    say("memory is={}", value(g.encoder_output));
    if (g.encoder_output_gradient != kNone) say(" gradient={}", value(g.encoder_output_gradient));
    out_ += '\n';
  }
  void program(const Program& p) {
    out_ = fmt::format("program {} state={} scratch={} bytes={} live={}", name(p.name),
                       p.state_bytes, p.scratch_offset, p.bytes, p.live_bytes);
    if (p.host_bytes != 0) say(" host={}", p.host_bytes);
    mesh(p.mesh);
    if (p.stage != 0) say(" stage={}", p.stage);
    if (p.ordered_transfers) say(" transfers=ordered");
    out_ += '\n';
    values();
    out_ += "kinds\n";
    for (const BufferKindId k : kinds_.ids()) kind(k);
    out_ += "segments\n";
    for (const SegmentId s : segments_.ids()) one_segment(s);
    out_ += "buffers\n";
    for (const BufferId f : p.buffers.ids()) buffer(f, p.buffers[f]);
    out_ += "calls\n";
    for (const CallId c : p.schedule.ids()) call(c, p.schedule[c]);
  }
  std::string take() { return std::move(out_); }

 private:
  std::string value(ValueId v) const {
    if (v == kNone) return "-";
    if (values_.contains(v) && !is_computed(values_[v].role) && is_word(values_[v].name) &&
        value_names_.at(values_[v].name) == 1)
      return values_[v].name;
    return fmt::format("%{}", v);
  }
  template <class I, class T>
  static std::string one_of(const IdVector<I, T>& list, const std::map<std::string, int>& names,
                            I id) {
    if (list.contains(id)) {
      const std::string name = entry_name(list[id]);
      if (is_word(name) && names.at(name) == 1) return name;
    }
    return fmt::format("${}", id);
  }
  std::string kind_name(BufferKindId k) const { return one_of(kinds_, kind_names_, k); }
  std::string segment_name(SegmentId s) const { return one_of(segments_, segment_names_, s); }

  std::string list(const std::vector<ValueId>& ids) const {
    std::string s;
    for (const ValueId v : ids) s += fmt::format("{}{}", s.empty() ? "" : ", ", value(v));
    return s;
  }
  template <class... A>
  void say(fmt::format_string<A...> format, A&&... a) {
    out_ += fmt::format(format, std::forward<A>(a)...);
  }

  void per(uint8_t p) {
    if (p == kOne) return;
    say(" per={}{}{}", p & kPerLayer ? "layer" : "", p == (kPerLayer | kPerMicrobatch) ? "," : "",
        p & kPerMicrobatch ? "microbatch" : "");
  }
  void sharding(const Sharding& s) {
    std::string places;
    for (const AxisKind a : Enumerators<AxisKind>()) {
      if (s.place[a] == kReplicated) continue;
      const auto named = name_of_place(s.place[a]);
      places += fmt::format("{}{}:{}", places.empty() ? "" : ",", name_of(a),
                            named ? std::string(*named) : std::to_string(s.place[a]));
    }
    if (!places.empty()) say(" place={}", places);
    if (s.cut != ContextCut::kParts) say(" cut={}", name_of(s.cut));
  }

  void mesh(const Mesh& m) {
    std::string sizes;
    for (const AxisKind a : Enumerators<AxisKind>())
      if (m[a] != 1) sizes += fmt::format("{}{}:{}", sizes.empty() ? "" : ",", name_of(a), m[a]);
    if (!sizes.empty()) say(" mesh={}", sizes);
  }

  void values() {
    out_ += "values\n";
    ValueVector derived = values_;
    for (Value& v : derived) v.of = kNone;
    set_origins(derived);
    for (const ValueId id : values_.ids()) {
      const Value& v = values_[id];
      say("  %{} {} {} {} {}", id, name(v.name), name_of(v.dtype), to_string(v.shape),
          name_of(v.role));
      per(v.indexed_by);
      if (v.decays) out_ += " decays";
      if (v.frozen) out_ += " frozen";
      if (v.policy != 0) say(" policy={}", v.policy);
      if (v.initial.std != 0) say(" std={}", exact_text(v.initial.std));
      if (v.initial.constant != 0) say(" constant={}", exact_text(v.initial.constant));
      if (v.parent)
        say(" whole={} {} first={} copies={}", name(v.parent->name), to_string(v.parent->shape),
            v.parent->first, v.parent->copies);
      for (const WeightPart& part : v.parts)
        say(" holds={} dim={} first={} count={}", name(part.name), part.dim, part.first,
            part.count);
      for (const ClippedRows& c : v.clips)
        say(" clips=%{} first={} last={} share={}", c.scores, c.first, c.last, exact_text(c.share));
      if (v.of != kNone && v.of != derived[id].of) say(" of=%{}", v.of);
      sharding(v.sharding);
      if (v.part) say(" part={}", to_string(*v.part));
      if (v.buffer != kNone) say(" in={}", kind_name(v.buffer));
      if (v.offset != kNone) say(" offset={}", v.offset);
      if (v.is_local_shard) out_ += " own";
      out_ += '\n';
    }
  }

  std::string text(const auto& field) const { return constant(field); }
  std::string text(BufferKindId k) const {
    if (!kinds_.contains(k)) return "-";
    const std::string& name = kinds_[k].name;
    return kind_names_.at(name) == 1 ? quoted(name) : fmt::format("${}", k);
  }
  // Returns the text of each field, in order.
  template <class A>
  std::vector<std::string> field_texts(const A& attributes) const {
    std::vector<std::string> texts;
    A::fields(attributes, [&](const char*, const auto& field, Print = {}, const Range& = {}) {
      texts.push_back(text(field));
    });
    return texts;
  }
  template <class A>
  // A field is printed if it differs from its default, as text: no comparison per type is needed.
  void attributes(const A& attributes) {
    const std::vector<std::string> defaults = field_texts(A());
    size_t i = 0;
    A::fields(attributes, [&](const char* key, const auto& field,
                              Print when = Print::kUnlessDefault, const Range& = {}) {
      const std::string own = text(field);
      const bool differs = own != defaults[i++];
      if (when == Print::kAlways || (when == Print::kUnlessDefault && differs))
        say(" {}={}", key, own);
    });
  }

  void op(const Op& op) {
    say("    {} = {} ({})", op.outputs.empty() ? "()" : list(op.outputs), name_of(op.kind()),
        list(op.inputs));
    std::visit([this](const auto& a) { attributes(a); }, op.attributes);
    if (op.workspace != kNone) say(" workspace={}", value(op.workspace));
    if (op.packed != kNone) say(" packed={}", value(op.packed));
    if (op.queue != Queue::kCompute) say(" queue={}", name_of(op.queue));
    if (!op.after.empty()) say(" after={}", fmt::join(op.after, ","));
    if (!op.chunk.is_whole()) say(" chunk={}:{}", op.chunk.index, op.chunk.count);
    if (!op.origin.empty()) say(" at={}", name(op.origin));
    std::string types;
    for (const ValueId v : op.outputs) {
      const Value& made = values_.at(v);
      types += fmt::format("{} {} {}", types.empty() ? " :" : ",", name_of(made.dtype),
                           to_string(made.shape));
    }
    out_ += types + "\n";
  }

  void block(const Block& b) {
    say("block {} layers={}", name(b.name), b.count());
    for (int64_t i = 0; i < std::ssize(b.at); ++i)
      if (b.at[i] != i) {
        say(" at={}", fmt::join(b.at, ","));
        break;
      }
    if (b.from != HiddenStream::kHidden) say(" from={}", name_of(b.from));
    if (b.to != HiddenStream::kHidden) say(" to={}", name_of(b.to));
    if (!b.held.empty()) say(" held={}", list(b.held));
    for (const auto& [key, v] : {std::pair("input", b.input), std::pair("output", b.output),
                                 std::pair("input_gradient", b.input_gradient),
                                 std::pair("output_gradient", b.output_gradient)})
      if (v != kNone) say(" {}={}", key, value(v));
    if (b.loss) out_ += " loss";
    out_ += "\n  forward\n";
    for (const Op& o : b.forward) op(o);
    out_ += "  backward\n";
    for (const Op& o : b.backward) op(o);
    if (b.weights.empty()) return;
    out_ += "  weight_backward\n";
    for (const Op& o : b.weights) op(o);
  }

  void kind(BufferKindId id) {
    const BufferKind& k = kinds_[id];
    say("  ${} {} bytes={}", id, name(k.name), k.bytes);
    per(k.indexed_by);
    if (k.state) out_ += " state";
    if (k.host) out_ += " host";
    if (k.like != kNone) say(" like={}", kind_name(k.like));
    if (!k.stages.empty()) say(" stages={}", fmt::join(k.stages, ","));
    if (!k.values.empty()) say(": {}", list(k.values));
    out_ += '\n';
  }

  void one_segment(SegmentId id) {
    const Segment& s = segments_[id];
    say("  ${} {} queue={} scratch={}\n", id, name(s.name()), name_of(s.queue), s.scratch_bytes);
    // Consecutive parameters with the same access share a line.
    for (size_t p = 0; p < s.buffers.size(); ++p) {
      const bool same = p > 0 && s.buffers[p].access == s.buffers[p - 1].access;
      if (same)
        out_ += ", ";
      else
        say("{}    {} ", p > 0 ? "\n" : "", name_of(s.buffers[p].access));
      out_ += kind_name(s.buffers[p].kind);
    }
    if (!s.buffers.empty()) out_ += '\n';
    for (const Op& o : s.ops) op(o);
  }

  void labels(int64_t layer, int64_t microbatch) {
    if (layer != kNone) say(" layer={}", layer);
    if (microbatch != kNone) say(" mb={}", microbatch);
  }
  void buffer(BufferId id, const Buffer& f) {
    say("  @{} {}", id, kind_name(f.kind));
    labels(f.layer, f.microbatch);
    if (f.offset != kNone) say(" offset={}", f.offset);
    out_ += f.state ? " state\n" : "\n";
  }

  void first_write(const Call& c) {
    if (c.first_write.empty()) return;
    const Segment& segment = segments_.at(c.segment);
    std::string names;
    for (size_t i = 0; i < c.first_write.size(); ++i)
      if (c.first_write[i])
        names +=
            fmt::format("{}{}", names.empty() ? "" : ",", kind_name(segment.buffers.at(i).kind));
    say(" first_write={}", names.empty() ? "-" : names);
  }
  void call(CallId id, const Call& c) {
    say("  #{} {}", id, segment_name(c.segment));
    labels(c.layer, c.microbatch);
    if (!c.buffers.empty()) say(" buffers=@{}", fmt::join(c.buffers, ",@"));
    first_write(c);
    if (c.comm != CommSpec{})
      say(" wire={}:{}:{}:{}", quoted(partners_of(c.comm)),
          quoted(std::string(name_of(c.comm.kind))), quoted(c.comm.label), c.comm.bytes);
    if (!c.after.empty()) say(" after=#{}", fmt::join(c.after, ",#"));
    if (!c.before_step.empty()) say(" before_step=#{}", fmt::join(c.before_step, ",#"));
    out_ += '\n';
  }

  const ValueVector& values_;
  const IdVector<BufferKindId, BufferKind>& kinds_;
  const IdVector<SegmentId, Segment>& segments_;
  std::map<std::string, int> value_names_, kind_names_, segment_names_;
  std::string out_;
};

}  // namespace

std::string print(const Graph& g) {
  const IdVector<BufferKindId, BufferKind> no_kinds;
  const IdVector<SegmentId, Segment> no_segments;
  Printer printer(g.values, no_kinds, no_segments);
  printer.graph(g);
  return printer.take();
}

std::string print(const Program& p) {
  Printer printer(p.values, p.kinds, p.segments);
  printer.program(p);
  return printer.take();
}

}  // namespace tessera
