// QK-clip of MuonClip (Kimi Team 2025): measures the largest attention scores of each step, and
// marks the rows of the weights that make them, which Muon's update then scales. From the heads
// that an attention reads, the ops that make them are followed back to the weights:
//
//   [K, G+2, D, F]             one GEMM makes G queries, a key and a value per group: queries and
//                              the key by the root of the factor, the value not
//   [K, N+R, C], [K, N+V, C]   latent attention: the N numbers of queries and keys that have no
//                              position by the root, the R rotated numbers of queries by the whole
//                              factor, because all heads share those of keys
#include "base/error.h"
#include "compile/graph/graph_passes.h"
#include "compile/graph/rewrite.h"
#include "ir/builder.h"
#include "ir/operands.h"

namespace tessera::compile {
namespace {

constexpr double kRoot = 0.5;

// Rows of a weight, without the value that has their scores.
struct Rows {
  ValueId weight;
  std::vector<ClippedRows> rows;
};

[[noreturn]] void fail(const Op& op, const std::string& why) {
  throw Error(fmt::format(
      "optimizer.qk_clip needs queries and keys that only GEMMs with weights compute, but {} "
      "{}. Remove optimizer.qk_clip.",
      op.origin, why));
}

class Clipper {
 public:
  Clipper(Graph& graph, const CompileRequest& request) : g_(graph), request_(request) {}

  void run() {
    if (request_.adapters.rank > 0)
      throw Error(
          "optimizer.qk_clip does not support lora.rank = {}: the weights of queries and keys are "
          "frozen. Remove optimizer.qk_clip.",
          request_.adapters.rank);
    for (Block& block : g_.blocks) {
      std::vector<Op> old;
      old.swap(block.forward);
      for (const Op& op : old) {
        block.forward.push_back(op);
        if (!op.is<Attention>()) continue;
        const std::vector<Rows> all = rows_of(old, op, op.inputs[Attention::kQkv]);
        if (!is_clipped(op, all)) continue;
        measure(block, op, all);
        ++measured_;
      }
    }
    if (measured_ == 0)
      throw Error(
          "optimizer.qk_clip is set, but muon trains no weights of queries and keys: they are "
          "frozen or in a group with another optimizer. Remove optimizer.qk_clip.");
  }

 private:
  double limit_of(ValueId weight) const {
    const OptimizerPolicy o = request_.policy(g_[weight].policy);
    return traits_of(o.kind).matrices && !g_[weight].frozen ? o.qk_clip : 0;
  }

  // Returns the weights of the queries and keys that `attention` reads as `heads`.
  std::vector<Rows> rows_of(const std::vector<Op>& ops, const Op& attention, ValueId heads) const {
    if (attention.as<Attention>().separate_kv || attention.as<Attention>().non_causal)
      fail(attention, "has keys of an encoder or of later tokens");
    const int at = writer(ops, heads);
    CHECK(at >= 0, "no op makes the heads of {}", attention.origin);
    const Op& op = ops[at];
    if (op.is<Rotary>()) return rows_of(ops, attention, op.inputs[Rotary::kQkv]);
    if (op.is<LatentHeads>()) return latent_rows(ops, op);
    if (op.is<HeadNorm>()) fail(op, "normalizes them, which limits their scores already");
    const ValueId weight = weight_of(op);
    const Shape& s = g_[weight].shape;
    const int64_t queries = (s[1] - 2) * s[2];
    return {{weight, {{kNone, 0, queries, kRoot}, {kNone, queries, queries + s[2], kRoot}}}};
  }

  std::vector<Rows> latent_rows(const std::vector<Op>& ops, const Op& heads) const {
    const auto weight = [&](LatentHeads::In slot) {
      const int at = writer(ops, heads.inputs[slot]);
      CHECK(at >= 0, "no op makes the heads of {}", heads.origin);
      return weight_of(ops[at]);
    };
    const ValueId queries = weight(LatentHeads::kQueries), keys = weight(LatentHeads::kExpanded);
    const int64_t all = g_[queries].shape[1];
    const int64_t plain = all - g_[heads.inputs[LatentHeads::kRopeKey]].shape[-1];
    return {{queries, {{kNone, 0, plain, kRoot}, {kNone, plain, all, 1}}},
            {keys, {{kNone, 0, plain, kRoot}}}};
  }

  ValueId weight_of(const Op& op) const {
    if (op.is<Sum>()) fail(op, "adds biases to them");
    if (!op.is<Matmul>()) fail(op, fmt::format("is an op {}", name_of(op.kind())));
    return op.inputs[Matmul::kW];
  }

  // Returns true if the rows have a limit, which must be one for all.
  bool is_clipped(const Op& attention, const std::vector<Rows>& all) const {
    const double limit = limit_of(all[0].weight);
    for (const Rows& r : all)
      if (limit_of(r.weight) != limit)
        throw Error(fmt::format(
            "optimizer.qk_clip of {} is {}, that of {} is {}. Give the weights of the queries and "
            "keys of {} one value of qk_clip.",
            g_[all[0].weight].name, limit, g_[r.weight].name, limit_of(r.weight),
            attention.origin));
    return limit > 0;
  }

  void measure(Block& block, const Op& attention, const std::vector<Rows>& all) {
    const Attention& a = attention.as<Attention>();
    const uint8_t per = block.is_stack() ? kPerLayer : kOne;
    Builder b(g_, block.forward, per, "");
    const int64_t heads = g_[attention.inputs[Attention::kQkv]].shape[2];
    const ValueId scores =
        b.value(attention.origin + ".max_scores", DType::kF32, {heads}, Role::kMaxScores, per);
    MaxScores op = {.scale = a.scale, .heads = heads, .window = a.window};
    std::vector<ValueId> in = {attention.inputs[Attention::kQkv]};
    if (a.mask == Mask::kDocuments) {
      op.documents = true;
      in.push_back(input(attention, Attention::kMask));
    }
    b.emit(op, attention.origin + ".max_scores", in, {scores});
    for (const Rows& r : all)
      for (ClippedRows rows : r.rows) {
        if (rows.first == rows.last) continue;  // heads without a part of this kind
        rows.scores = scores;
        g_[r.weight].clips.push_back(rows);
      }
  }

  Graph& g_;
  const CompileRequest& request_;
  int64_t measured_ = 0;  // attentions with a limit
};

}  // namespace

void clip_scores(Graph& graph, const CompileRequest& request) { Clipper(graph, request).run(); }

}  // namespace tessera::compile
