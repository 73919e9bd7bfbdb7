// Training steps of the schedule level, made by hand: segments without ops, as a compiler for
// several ranks would schedule them, with gathers and reductions on a queue of their own.
#pragma once

#include <map>
#include <string>
#include <tuple>

#include "compile/memory/assign_buffers.h"
#include "ir/program.h"

namespace tessera::testing {

struct TrainingProgramOptions {
  int64_t layers = 3, microbatches = 2;
  bool gathers = true;        // weights are gathered into buffers of their own, by layer and use
  Queue side = Queue::kData;  // of gathers and reductions
  GroupRef channel;           // of their wires; empty: none
};

class TrainingProgram {
 public:
  explicit TrainingProgram(const TrainingProgramOptions& o) : o_(o) {}

  Program make() {
    p_.name = "train";
    call("clear", {{"report", Access::kWrite}});
    for (int64_t m = 0; m < o_.microbatches; ++m) {
      gather("embed", kNone);
      call("forward.embed", {{weights("embed"), Access::kRead}, {"hidden", Access::kWrite}}, 0, m);
      for (int64_t l = 0; l < o_.layers; ++l) forward(l, m);
      head(m);
      for (int64_t l = o_.layers; l-- > 0;) backward(l, m);
      call("backward.embed", {{"d_hidden", Access::kRead}, {"embed.gradients", Access::kAdd}}, 0,
           m);
    }
    each([&](const std::string& g, int64_t l) {
      call("reduce." + g, {{g + ".gradients", Access::kUpdate}}, l, kNone, o_.side);
    });
    each([&](const std::string& g, int64_t l) {
      call("squares." + g, {{g + ".gradients", Access::kRead}, {"report", Access::kAdd}}, l);
    });
    call("clip", {{"report", Access::kUpdate}});
    each([&](const std::string& g, int64_t l) {
      call("update." + g,
           {{g + ".gradients", Access::kRead},
            {"report", Access::kRead},
            {g + ".weights", Access::kUpdate},
            {g + ".moments", Access::kUpdate}},
           l);
    });
    compile::assign_buffers(p_, {});
    return std::move(p_);
  }

 private:
  using Parameters = std::vector<std::pair<std::string, Access>>;

  std::string weights(const std::string& group) const {
    return group + (o_.gathers ? ".gathered" : ".weights");
  }
  void gather(const std::string& group, int64_t layer) {
    if (!o_.gathers) return;
    ++use_;  // every gather is a new life
    call("gather." + group,
         {{group + ".weights", Access::kRead}, {group + ".gathered", Access::kWrite}}, layer, kNone,
         o_.side);
  }
  template <class F>
  void each(const F& f) {
    f("embed", kNone);
    for (int64_t l = 0; l < o_.layers; ++l) f("layer", l);
    f("head", kNone);
  }
  void forward(int64_t l, int64_t m) {
    gather("layer", l);
    call("forward.layer",
         {{weights("layer"), Access::kRead},
          {"hidden", Access::kRead},
          {"hidden'", Access::kWrite},
          {"saved", Access::kWrite}},
         l, m);
  }
  void head(int64_t m) {
    gather("head", kNone);
    call("head",
         {{weights("head"), Access::kRead},
          {"hidden", Access::kRead},
          {"d_hidden", Access::kWrite},
          {"head.gradients", Access::kAdd},
          {"report", Access::kAdd}},
         o_.layers, m);
  }
  void backward(int64_t l, int64_t m) {
    gather("layer", l);
    call("backward.layer",
         {{weights("layer"), Access::kRead},
          {"saved", Access::kRead},
          {"d_hidden'", Access::kRead},
          {"d_hidden", Access::kWrite},
          {"layer.gradients", Access::kAdd}},
         l, m);
  }

  // hidden of layer l is what it reads, hidden' what it writes: hidden of layer l + 1.
  BufferId buffer(std::string kind, int64_t layer, int64_t m) {
    if (kind.ends_with('\'')) {
      kind.pop_back();
      ++layer;
    }
    const bool stream = kind.ends_with("hidden") || kind == "saved";
    if (!stream) m = kNone;
    if (kind.find("layer") == std::string::npos && !stream) layer = kNone;
    int64_t use = kNone;
    if (kind.ends_with(".gathered")) use = use_of_[{kind, layer}] = live_use(kind, layer);
    const auto key = std::tuple(kind, layer, m, use);
    if (buffers_.contains(key)) return buffers_[key];
    Buffer f;
    f.kind = kind_of(kind);
    f.layer = layer;
    f.microbatch = m;
    f.state = p_.kind(f.kind).state;
    if (f.state) {
      f.offset = p_.state_bytes;
      p_.state_bytes += p_.kind(f.kind).bytes;
    }
    return buffers_[key] = p_.buffers.push_back(f);
  }
  // A gather starts a new life; the calls after it use that one.
  int64_t live_use(const std::string& kind, int64_t layer) {
    if (gathering_) return use_;
    return use_of_[{kind, layer}];
  }
  BufferKindId kind_of(const std::string& name) {
    if (kinds_.contains(name)) return kinds_[name];
    BufferKind k;
    k.name = name;
    k.bytes = 64 * (1 + static_cast<int64_t>(name.size()) % 3);
    k.state = name == "report" || name.ends_with(".weights") || name.ends_with(".moments");
    return kinds_[name] = p_.kinds.push_back(k);
  }

  void call(const std::string& name, const Parameters& parameters, int64_t layer = kNone,
            int64_t m = kNone, Queue queue = Queue::kCompute) {
    gathering_ = name.starts_with("gather");
    if (!segments_.contains(name)) {
      Segment s;
      s.set_name(name);
      s.queue = queue;
      if (queue == Queue::kCompute) s.scratch_bytes = 64 * (static_cast<int64_t>(name.size()) % 4);
      for (const auto& [kind, access] : parameters)
        s.buffers.push_back(
            {kind_of(kind.ends_with('\'') ? kind.substr(0, kind.size() - 1) : kind), access});
      segments_[name] = p_.segments.push_back(s);
    }
    Call c;
    c.segment = segments_[name];
    c.layer = layer;
    c.microbatch = m;
    for (const auto& [kind, access] : parameters) c.buffers.push_back(buffer(kind, layer, m));
    if (queue != Queue::kCompute && !o_.channel.empty())
      c.comm = {gathering_ ? CommKind::kAllGather : CommKind::kAllReduce, o_.channel, kNone, name,
                p_.bytes_of(c.buffers.back())};
    p_.schedule.push_back(std::move(c));
  }

  TrainingProgramOptions o_;
  Program p_;
  std::map<std::string, BufferKindId> kinds_;
  std::map<std::string, SegmentId> segments_;
  std::map<std::tuple<std::string, int64_t, int64_t, int64_t>, BufferId> buffers_;
  std::map<std::pair<std::string, int64_t>, int64_t> use_of_;
  int64_t use_ = 0;
  bool gathering_ = false;
};

inline Program training_program(const TrainingProgramOptions& options = {}) {
  return TrainingProgram(options).make();
}

}  // namespace tessera::testing
