// Says what is wrong with a graph or a program, one sentence a fault, each naming the op or frame:
//   "forward.layer layer.attn.qkv (matmul): output layer.attn.qkv is f32 [2, 8], its rule says …"
//
//   numbers   shapes and bytes do not overflow, a rank's shape is what the sharding and the mesh
//   make
//             of the global one, the parts of a weight cover it, labels and stages are in range
//   layers    of a graph: those of a stream have the numbers 0, 1, …, and each is in one stack
//   ops       ids exist; attributes are in their ranges; what an op reads was made before it, in
//             its block or segment; outputs have
//             the type and shape that the rule infers from the inputs
//   sharding  a rule has one letter for each dimension of each operand; on every axis of the mesh
//             the op's places are one of its signatures, or those of a conversion (ir/signature.h).
//             In a program, where no gradient is to come, replicated and shared are the same.
//   layout    values of a frame fit in it and do not overlap; a segment's parameters are the frames
//             its ops touch, with the access that they need, and what it writes or adds to it
//             covers; scratch fits and shares bytes only where lives do not meet, or an op works in
//             place; a workspace is of one op alone
//   products  a packed weight is that of the product that reads it; the pieces of a reduction are
//             all there; a gradient has the attributes of its op
//   queues    only segments of the compute queue have ops on inner queues, which communicate or
//             copy within a stage; ops wait for ops of other queues; ops on chunks divide what
//             they make, and make every chunk once, before it is read
//   races     two ops that touch the same bytes, one of them writing, are ordered by their queues
//             and waits
//   calls     name frames of the kinds that their segment takes
//
// Wrong inputs of an op are a bug that its shape rule stops at (CHECK).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/program.h"
#include "ir/target.h"

namespace tessera {

// How the shardings of an op's operands are compared with the signatures of its rule.
enum class ShardingCheck : uint8_t {
  kIgnored,    // not at all: before values have shardings
  kExact,      // replicated and shared differ: gradients are still to come
  kSameBytes,  // replicated and shared are the same
};

// Empty: nothing wrong.
std::vector<std::string> verify(const Graph& g, ShardingCheck shardings = ShardingCheck::kExact);
std::vector<std::string> verify(const Program& p);

// The frames and the scratch of a placed program that verify() finds right: they are in its arena,
// which is no larger than they need, and state shares no bytes.
std::vector<std::string> verify_arena(const Program& p);

// Workspaces and packed weights are as large as the target asks for.
std::vector<std::string> verify_target(const Program& p, const Target& target);

// One op by itself: ids, types, shapes and sharding. `where` begins each sentence.
std::vector<std::string> verify_op(const Op& op, ValueSpan values, const std::string& where,
                                   const Mesh& mesh = {}, bool same_bytes = false);

// Its labels and places. `name` begins each sentence.
std::vector<std::string> verify_sharding(const Op& op, ValueSpan values, const Mesh& mesh,
                                         bool same_bytes, const std::string& name);

// The part of verify() that calls can change: ids exist, and calls name frames of the kinds that
// their segments take.
std::vector<std::string> verify_calls(const Program& p);

// Numbers of values and of a program whose ids are right. The parts of verify() that follow compute
// with them.
std::vector<std::string> verify_values(ValueSpan values, const Mesh& mesh);
std::vector<std::string> verify_numbers(const Program& p);

// Packed weights, reductions in pieces, and gradients beside their ops.
std::vector<std::string> verify_products(const Program& p);

// The frame kinds, segments' parameters and scratch of a program whose ids are right, and its
// calls.
std::vector<std::string> verify_layout(const Program& p);
std::vector<std::string> verify_frames_of_calls(const Program& p);
// The queues, waits and chunks of the ops of each segment.
std::vector<std::string> verify_queues(const Program& p);
// Of a segment whose values have offsets: that all that touch the same bytes are ordered.
std::vector<std::string> verify_races(const Program& p, const Segment& s);

// Moves the findings of one part behind those of the others.
void append(std::vector<std::string>& all, std::vector<std::string> more);

}  // namespace tessera
