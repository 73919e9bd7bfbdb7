// Says what is wrong with a graph or a program, one sentence a fault, each naming the op or frame:
//   "forward.layer layer.attn.qkv (matmul): output layer.attn.qkv is f32 [2, 8], its rule says …"
//
//   ops       ids exist; what an op reads was made before it, in its block or segment; outputs have
//             the type and shape that the rule infers from the inputs
//   sharding  a rule has one letter for each dimension of each operand; on every axis of the mesh
//             the op's places are one of its signatures, or those of a conversion (ir/signature.h).
//             In a program, where no gradient is to come, replicated and shared are the same.
//   layout    values of a frame fit in it and do not overlap; a segment's parameters are the frames
//             its ops touch, with the access that they need, and what it writes or adds to it
//             covers; scratch fits and shares bytes only where lives do not meet, or an op works in
//             place
//   calls     name frames of the kinds that their segment takes
//
// Wrong inputs of an op are a bug that its shape rule stops at (CHECK).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/program.h"

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

// One op by itself: ids, types, shapes and sharding. `where` begins each sentence.
std::vector<std::string> verify_op(const Op& op, ValueSpan values, const std::string& where,
                                   const Mesh& mesh = {}, bool same_bytes = false);

// Its labels and places. `name` begins each sentence.
std::vector<std::string> verify_sharding(const Op& op, ValueSpan values, const Mesh& mesh,
                                         bool same_bytes, const std::string& name);

// The part of verify() that calls can change: ids exist, and calls name frames of the kinds that
// their segments take.
std::vector<std::string> verify_calls(const Program& p);

// The frame kinds, segments' parameters and scratch of a program whose ids are right, and its
// calls.
std::vector<std::string> verify_layout(const Program& p);
std::vector<std::string> verify_frames_of_calls(const Program& p);

}  // namespace tessera
