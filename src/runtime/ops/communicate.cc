// Bindings of collectives and messages. A collective runs along one dimension of a value, [outer,
// n, inner]; the shard of a rank is a range of n, or two ranges (ContextCut::kZigzag). If outer = 1
// and each shard is one range, the shards are contiguous and the transfer works in place. Otherwise
// they are packed into the workspace, shard by shard, and unpacked afterwards:
//
//   whole     [ o0: r0 r1 r2 | o1: r0 r1 r2 ]       r: rows of that rank
//   packed    [ r0: o0 o1 | r1: o0 o1 | r2: o0 o1 ]
//
// An all-to-all packs its chunks into its output, receives those of other ranks in the workspace,
// and unpacks them into the output.
//
// If a reduction uses another dtype than the value, the terms are cast into the workspace first
// ("staged").
#include <algorithm>
#include <utility>

#include "base/error.h"
#include "ir/rule.h"
#include "runtime/binding.h"

namespace tessera::runtime {
namespace {

int64_t divide(int64_t n, int64_t by) { return (n + by - 1) / by; }

// A collective along a dimension: the whole is [outer, n, inner], a shard [outer, extent, inner].
struct Cut {
  int64_t outer = 1, n = 0, inner = 1, extent = 0;

  // Returns the number of shards that are not empty. Packed shards are padded, contiguous and in
  // rank order.
  int64_t parts() const { return divide(n, extent); }
  int64_t part_elements() const { return outer * extent * inner; }
  // Returns the number of rows of shard k along the dimension.
  int64_t rows(int64_t k) const { return std::min(extent, n - k * extent); }
};

bool in_place(const Op& op) { return op.inputs[0] == op.outputs[0]; }
bool gathers(const Op& op) { return op.is<AllGather>(); }

// Returns the dimension of the collective; a flat buffer has only one.
int dim_of(const Op& op) {
  const int64_t dim = gathers(op) ? op.as<AllGather>().dim : op.as<ReduceScatter>().dim;
  return dim == kNone ? 0 : static_cast<int>(dim);
}

Cut cut(const Op& op, const Shape& whole, int64_t extent) {
  const int dim = dim_of(op);
  CHECK(dim < whole.rank() && extent > 0, "{} along dimension {} of {}", op.origin, dim,
        to_string(whole));
  return {whole.product(0, dim), whole[dim], whole.product(dim + 1, whole.rank()), extent};
}

// The two sides of a collective: this rank's shard, and the whole value.
struct Sides {
  TensorView whole, part;
  Cut cut;
  bool zigzag = false;  // the rows of a shard are two chunks of the whole (ContextCut)
  // Returns true if the shards are ranges of the whole, in the order of ranks.
  bool are_in_place() const { return cut.outer == 1 && !zigzag; }
};

// Returns true if ranks have two chunks of the tokens along which the collective runs.
bool is_zigzag(const BoundOp& b) {
  const Value& part = b.values[gathers(*b.op) ? b.op->inputs[0] : b.op->outputs[0]];
  return part.sharding.cut == ContextCut::kZigzag &&
         over_of(b.op->attributes)->has(AxisKind::kContext);
}

// Returns the ranges of rows that shard k consists of.
std::vector<TokenRange> rows_of_shard(const BoundOp& b, const Sides& s, int64_t k) {
  if (!s.zigzag) return {{0, k * s.cut.extent, s.cut.rows(k)}};
  return token_ranges(s.cut.n, b.position->mesh[AxisKind::kContext], k * s.cut.extent,
                      s.cut.rows(k));
}

Sides sides_of(const BoundOp& b) {
  Sides s;
  s.whole = gathers(*b.op) ? b.outputs[0] : b.inputs[0];
  s.part = gathers(*b.op) ? b.inputs[0] : b.outputs[0];
  const int dim = dim_of(*b.op);
  const int64_t size = b.channel->size();
  s.zigzag = is_zigzag(b);
  s.cut = cut(*b.op, s.whole.shape,
              in_place(*b.op) ? divide(s.whole.shape[dim], size) : s.part.shape[dim]);
  CHECK(s.cut.extent * size >= s.cut.n, "{}: {} shards of {} do not cover {}", b.op->origin, size,
        to_string(s.part.shape), to_string(s.whole.shape));
  if (in_place(*b.op)) {
    CHECK(s.cut.outer == 1, "{}: in-place shards of {} are not contiguous", b.op->origin,
          to_string(s.whole.shape));
    const int64_t first = std::min(s.cut.n, b.channel->rank() * s.cut.extent);
    const int64_t rows = std::min(s.cut.extent, s.cut.n - first);
    s.part = {s.whole.as<std::byte>() + first * s.cut.inner * size_of(s.whole.dtype), s.whole.dtype,
              Shape{rows * s.cut.inner}};
  }
  return s;
}

// Returns the packed shards, which are in the workspace.
TensorView packed(const BoundOp& b, const Sides& s) {
  return {b.launch.workspace, s.whole.dtype, Shape{s.cut.parts() * s.cut.part_elements()}};
}

// Returns the copy of some rows of shard k from the whole value to their packed position.
kernels::CopyRowsArgs packing(const BoundOp& b, const Sides& s, int64_t k, const TokenRange& rows) {
  const Cut& c = s.cut;
  const int64_t row = c.inner * size_of(s.whole.dtype);
  return {.to = b.launch.room<std::byte>((k * c.outer * c.extent + rows.local) * row),
          .to_pitch = c.extent * row,
          .from = s.whole.as<std::byte>() + rows.first * row,
          .from_pitch = c.n * row,
          .bytes = rows.count * row,
          .rows = c.outer};
}

void pack_parts(const BoundOp& b, const Sides& s) {
  if (s.cut.parts() * s.cut.extent > s.cut.n) b.run(kernels::ClearArgs{packed(b, s)});  // padding
  for (int64_t k = 0; k < s.cut.parts(); ++k)
    for (const TokenRange& rows : rows_of_shard(b, s, k)) b.run(packing(b, s, k, rows));
}

void unpack_parts(const BoundOp& b, const Sides& s) {
  for (int64_t k = 0; k < s.cut.parts(); ++k)
    for (const TokenRange& rows : rows_of_shard(b, s, k)) {
      kernels::CopyRowsArgs c = packing(b, s, k, rows);
      c.from =
          std::exchange(c.to, s.whole.as<std::byte>() + (c.to_pitch / s.cut.extent) * rows.first);
      std::swap(c.to_pitch, c.from_pitch);
      b.run(c);
    }
}

comm::Reduction reduction_of(const Op& op) {
  const AllReduce* const sum = op.if_as<AllReduce>();
  return sum != nullptr && sum->max ? comm::Reduction::kMax : comm::Reduction::kSum;
}

// Returns n elements of the workspace, in the dtype that is communicated.
TensorView staged(const BoundOp& b, int64_t n) {
  return {b.launch.workspace, wire_type(*b.op, b.values[b.op->inputs[0]]), Shape{n}};
}

// Returns whether the op adds to a gradient that an earlier call has written.
bool adds(const BoundOp& b) {
  const Value& out = b.values[b.op->outputs[0]];
  return !in_place(*b.op) && !out.is_local_shard && out.role == Role::kGradient && !b.fresh[0];
}

comm::Ticket start_gather(const BoundOp& b) {
  const Sides s = sides_of(b);
  if (s.are_in_place()) return b.channel->all_gather(s.part, s.whole, s.cut.part_elements());
  return b.channel->all_gather(flat(s.part), packed(b, s), s.cut.part_elements());
}

comm::Ticket start_scatter(const BoundOp& b) {
  const Sides s = sides_of(b);
  const comm::ReduceScatterForm how = {s.cut.part_elements(), reduction_of(*b.op), adds(b)};
  if (is_staged(*b.op)) {
    const int64_t share = s.cut.part_elements();
    // This op reduces only one piece of each shard. The pieces of all shards are cast to the dtype
    // that is communicated, into contiguous terms.
    const FlatPiece piece = piece_of(*b.op, share);
    const int64_t n = piece.elements();
    const TensorView terms = staged(b, n * b.channel->size());
    for (int64_t r = 0; r < b.channel->size(); ++r)
      b.run(kernels::CastArgs{part(flat(s.whole), r * share + piece.first, r * share + piece.last),
                              part(terms, r * n, (r + 1) * n)});
    return b.channel->reduce_scatter(terms, part(flat(s.part), piece.first, piece.last),
                                     {n, how.reduction, how.add});
  }
  if (s.are_in_place()) return b.channel->reduce_scatter(s.whole, s.part, how);
  pack_parts(b, s);
  return b.channel->reduce_scatter(packed(b, s), flat(s.part), how);
}

// Returns the part of a flat operand that this op handles; all of it, unless the op is a piece.
TensorView own_piece(const BoundOp& b, const TensorView& x) {
  const FlatPiece piece = piece_of(*b.op, x.elements());
  return part(flat(x), piece.first, piece.last);
}

comm::Ticket start_sum(const BoundOp& b) {
  const TensorView in = own_piece(b, b.inputs[0]);
  if (!is_staged(*b.op))
    return b.channel->all_reduce(in, own_piece(b, b.outputs[0]), reduction_of(*b.op));
  const TensorView terms = staged(b, in.elements());
  b.run(kernels::CastArgs{in, terms});
  return b.channel->all_reduce(terms, terms, reduction_of(*b.op));
}

void finish_gather(const BoundOp& b) {
  const Sides s = sides_of(b);
  if (!s.are_in_place()) unpack_parts(b, s);
}

void finish_sum(const BoundOp& b) {
  if (!is_staged(*b.op)) return;
  const TensorView out = own_piece(b, b.outputs[0]);
  b.run(kernels::CastArgs{staged(b, out.elements()), out});
}

// An all-to-all of a value whose dimension `from` is divided before, and `to` after it. Chunk k
// consists of this rank's rows of `from` and of rank k's rows of `to`.
struct Exchange {
  int64_t ranks = 1;
  // Rows of one chunk in the operand: the pitch between them, and the bytes of each.
  struct Rows {
    int64_t count, pitch, bytes;
  };
  Rows in, out;
};

// Returns the rows of a chunk in an operand whose dimension `d` contains the chunks of all ranks.
Exchange::Rows rows_of(const Shape& all, int64_t d, int64_t ranks, DType type) {
  const int dim = static_cast<int>(d);
  const int64_t pitch = all.product(dim, all.rank()) * size_of(type);
  return {all.product(0, dim), pitch, pitch / ranks};
}

Exchange exchange_of(const BoundOp& b) {
  const AllToAll& a = b.op->as<AllToAll>();
  const TensorView &in = b.inputs[0], &out = b.outputs[0];
  const int64_t n = b.channel->size();
  CHECK(in.shape[static_cast<int>(a.to)] % n == 0 && in.bytes() == out.bytes(),
        "{}: {} to {} among {} ranks", b.op->origin, to_string(in.shape), to_string(out.shape), n);
  return {n, rows_of(in.shape, a.to, n, in.dtype), rows_of(out.shape, a.from, n, out.dtype)};
}

// Returns the chunks, one after the other, in memory that starts at `data`.
TensorView chunks_at(const BoundOp& b, void* data) {
  return {data, b.inputs[0].dtype, Shape{b.inputs[0].elements()}};
}

comm::Ticket start_exchange(const BoundOp& b) {
  const Exchange e = exchange_of(b);
  const TensorView& out = b.outputs[0];
  const int64_t chunk = out.bytes() / e.ranks;
  for (int64_t k = 0; k < e.ranks; ++k)
    b.run(kernels::CopyRowsArgs{.to = out.as<std::byte>() + k * chunk,
                                .to_pitch = e.in.bytes,
                                .from = b.inputs[0].as<std::byte>() + k * e.in.bytes,
                                .from_pitch = e.in.pitch,
                                .bytes = e.in.bytes,
                                .rows = e.in.count});
  return b.channel->all_to_all(chunks_at(b, out.data), chunks_at(b, b.launch.workspace));
}

void finish_exchange(const BoundOp& b) {
  const Exchange e = exchange_of(b);
  const TensorView& out = b.outputs[0];
  const int64_t chunk = out.bytes() / e.ranks;
  for (int64_t k = 0; k < e.ranks; ++k)
    b.run(kernels::CopyRowsArgs{.to = out.as<std::byte>() + k * e.out.bytes,
                                .to_pitch = e.out.pitch,
                                .from = b.launch.room<std::byte>(k * chunk),
                                .from_pitch = e.out.bytes,
                                .bytes = e.out.bytes,
                                .rows = e.out.count});
}

int64_t exchange_workspace(const BoundOp& b) { return b.outputs[0].bytes(); }

comm::Ticket start_rotate(const BoundOp& b) {
  return b.channel->rotate(flat(b.inputs[0]), flat(b.outputs[0]));
}

comm::Ticket start_send(const BoundOp& b) { return b.channel->send(b.inputs[0], b.peer); }
comm::Ticket start_receive(const BoundOp& b) { return b.channel->receive(b.outputs[0], b.peer); }

// Returns the bytes for staged terms, or for shards that are not contiguous in the whole value.
int64_t workspace(const BoundOp& b) {
  const Op& op = *b.op;
  if (is_staged(op)) return staged_bytes(op, b.values);
  if (in_place(op) || op.is<AllReduce>()) return 0;
  const Shape& whole = (gathers(op) ? b.outputs[0] : b.inputs[0]).shape;
  const Shape& part = (gathers(op) ? b.inputs[0] : b.outputs[0]).shape;
  const Cut c = cut(op, whole, part[dim_of(op)]);
  return c.outer == 1 && !is_zigzag(b) ? 0
                                       : c.parts() * c.part_elements() * size_of(b.inputs[0].dtype);
}

}  // namespace

template <>
const Binding& binding_for<AllReduce>() {
  static constexpr Binding kBinding = {nullptr, workspace, start_sum, finish_sum};
  return kBinding;
}
template <>
const Binding& binding_for<ReduceScatter>() {
  static constexpr Binding kBinding = {nullptr, workspace, start_scatter};
  return kBinding;
}
template <>
const Binding& binding_for<AllGather>() {
  static constexpr Binding kBinding = {nullptr, workspace, start_gather, finish_gather};
  return kBinding;
}
template <>
const Binding& binding_for<AllToAll>() {
  static constexpr Binding kBinding = {nullptr, exchange_workspace, start_exchange,
                                       finish_exchange};
  return kBinding;
}
template <>
const Binding& binding_for<Rotate>() {
  static constexpr Binding kBinding = {nullptr, nullptr, start_rotate};
  return kBinding;
}
template <>
const Binding& binding_for<Send>() {
  static constexpr Binding kBinding = {nullptr, nullptr, start_send};
  return kBinding;
}
template <>
const Binding& binding_for<Receive>() {
  static constexpr Binding kBinding = {nullptr, nullptr, start_receive};
  return kBinding;
}
// `mark_shared` has no kernel: its output is an alias of its input.
template <>
const Binding& binding_for<MarkShared>() {
  static constexpr Binding kBinding = {};
  return kBinding;
}

}  // namespace tessera::runtime
