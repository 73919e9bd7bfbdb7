// Verifies a graph or a program. Returns one sentence per fault, which names the op or buffer:
//   "forward.layer layer.attn.qkv (matmul): output layer.attn.qkv is f32 [2, 8], its rule gives …"
//
//   numbers   shapes and bytes do not overflow; the shape on one rank follows from the global
//             shape, the sharding and the mesh; the parts of a weight cover it; labels and stages
//             are in range
//   layers    in a graph: those of a stream are numbered 0, 1, …, and each is in one stack
//   ops       ids exist; attributes are in their ranges; an op reads only what was computed before
//             it, in its block or segment; outputs have the dtype and shape that the rule infers
//             from the inputs
//   sharding  a rule has one letter for each dimension of each operand; on every axis of the mesh
//             the placements of an op's operands are one of its signatures, or those of a
//             conversion (ir/signature.h). In a program, whose gradients exist, replicated and
//             shared count as equal.
//   layout    values of a buffer fit in it and do not overlap; a segment's parameters are the
//             buffers that its ops use, with the access that they need, and its writes and
//             additions cover the whole buffer; scratch fits, and its values share bytes only if
//             their lifetimes do not overlap or an op works in place; a workspace belongs to one op
//             alone
//   products  a packed weight is that of the GEMM that reads it; the pieces of a reduction are
//             complete; a gradient has the attributes of its op
//   queues    only segments of the compute queue have ops on inner queues, which communicate or
//             copy within a stage; ops wait for ops of other queues; ops on chunks divide what
//             they compute, and compute every chunk once, before it is read
//   races     two ops that use the same bytes, one of which writes, are ordered by their queues
//             and waits
//   calls     name buffers of the kinds of their segment's parameters
//
// Wrong inputs of an op are a bug, at which its shape rule aborts (CHECK).
#pragma once

#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "ir/program.h"
#include "ir/target.h"

namespace tessera {

// How the shardings of an op's operands are compared with the signatures of its rule.
enum class ShardingCheck : uint8_t {
  kIgnored,    // not compared, before values have shardings
  kExact,      // replicated and shared differ, before gradients exist
  kSameBytes,  // replicated and shared count as equal
};

// Return an empty list if there is no fault.
std::vector<std::string> verify(const Graph& g, ShardingCheck shardings = ShardingCheck::kExact);
std::vector<std::string> verify(const Program& p);

// Verifies the buffers and the scratch of a placed program in which verify() finds no fault: they
// are in its arena, which is no larger than they need, and state buffers do not overlap.
std::vector<std::string> verify_arena(const Program& p);

// Verifies that workspaces and packed weights are as large as the target needs.
std::vector<std::string> verify_target(const Program& p, const Target& target);

// Verifies one op: ids, dtypes, shapes and sharding. `where` begins each sentence.
std::vector<std::string> verify_op(const Op& op, ValueSpan values, const std::string& where,
                                   const Mesh& mesh = {}, bool same_bytes = false);

// Verifies the labels and placements of one op. `name` begins each sentence.
std::vector<std::string> verify_sharding(const Op& op, ValueSpan values, const Mesh& mesh,
                                         bool same_bytes, const std::string& name);

// The part of verify() that calls can affect: ids exist, and calls name buffers of the kinds of
// their segments' parameters.
std::vector<std::string> verify_calls(const Program& p);

// Verifies the numbers of values and of a program whose ids are valid. The later parts of verify()
// compute with them.
std::vector<std::string> verify_values(ValueSpan values, const Mesh& mesh);
std::vector<std::string> verify_numbers(const Program& p);

// Verifies packed weights, reductions in pieces, and that gradients have the attributes of their
// ops.
std::vector<std::string> verify_products(const Program& p);

// Verifies the buffer kinds, segments' parameters and scratch of a program whose ids are valid, and
// its calls.
std::vector<std::string> verify_layout(const Program& p);
std::vector<std::string> verify_buffers_of_calls(const Program& p);
// Verifies the queues, waits and chunks of the ops of each segment.
std::vector<std::string> verify_queues(const Program& p);
// Verifies that all ops of a segment that use the same bytes are ordered. Its values must have
// offsets.
std::vector<std::string> verify_races(const Program& p, const Segment& s);

// Returns the name of an op in findings: "forward.layer layer.attn.qkv (matmul)".
std::string op_name(const Op& op, const std::string& where);

// Appends the findings of one part to the others.
template <class Finding>
void append(std::vector<Finding>& all, std::vector<Finding> more) {
  all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

}  // namespace tessera
