// Executes a sharded, differentiated graph on all ranks of its mesh in one process, op by op, with
// the real kernels: one micro-batch, every block once a layer, forward and backward. Collectives
// work directly on the ranks' buffers. Nothing is planned or laid out: each rank has a buffer for
// each (value, layer).
#pragma once

#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include "base/error.h"
#include "compile/schedule/stage_layers.h"
#include "ir/rule.h"
#include "ir/state.h"
#include "runtime/binding.h"
#include "runtime/prepared_kernels.h"

namespace tessera::testing {

// A global array, in f64 whatever the value's type.
using Array = std::vector<double>;

class Lockstep {
 public:
  Lockstep(const Graph& graph, runtime::PreparedKernels& kernels) : g_(graph), kernels_(kernels) {
    for (const Value& v : g_.values) {
      local_.push_back(v);
      local_.back().shape = v.local();
    }
    ranks_.resize(static_cast<size_t>(g_.mesh.ranks()));
  }

  // Gives every rank its part; padding is zero.
  void write(ValueId v, int64_t layer, const Array& all) {
    for (int64_t r = 0; r < g_.mesh.ranks(); ++r) {
      TensorView t = view(r, v, layer);
      each_element(v, r,
                   [&](int64_t from, int64_t to) { put(t, to, all[static_cast<size_t>(from)]); });
    }
  }

  // The global value: the sum over the axes on which it is partial.
  Array read(ValueId v, int64_t layer) {
    Array all(static_cast<size_t>(g_[v].shape.elements()), 0.0);
    for (int64_t r = 0; r < g_.mesh.ranks(); ++r) {
      const Coordinates at = coordinates_of(g_.mesh, r);
      bool counts = true;  // once where the bytes are the same
      for (const AxisKind a : Enumerators<AxisKind>()) {
        const int8_t p = g_[v].sharding.place[a];
        if ((p == kReplicated || p == kShared) && at.at[a] > 0) counts = false;
      }
      if (!counts) continue;
      const TensorView t = view(r, v, layer);
      each_element(v, r,
                   [&](int64_t to, int64_t from) { all[static_cast<size_t>(to)] += get(t, from); });
    }
    return all;
  }

  // What a rank holds of v, zero where nothing wrote it.
  TensorView view(int64_t rank, ValueId v, int64_t layer) {
    const Value& value = local_[v];
    auto& bytes = ranks_[static_cast<size_t>(rank)][{v, layer_of(v, layer)}];
    if (bytes.empty()) bytes.resize(static_cast<size_t>(value.bytes()) / sizeof(double) + 2, 0.0);
    return {bytes.data(), value.dtype, value.shape};
  }

  // Forward and backward of one micro-batch. Gradients and report are added to.
  void run() {
    ValueId stream = kNone;
    int64_t at = kNone;
    const std::vector<compile::ChunkBlock> order = compile::model_order(g_.blocks);
    for (const compile::ChunkBlock& v : order) {
      const Block& b = g_.blocks[v.block];
      if (b.loss) continue;
      const int64_t l = std::max<int64_t>(v.layer, 0);
      if (b.input != kNone) move(stream, at, b.input, l);
      run_ops(b.forward, l);
      stream = b.output;
      at = l;
    }
    ValueId gradient = kNone;
    for (auto v = order.rbegin(); v != order.rend(); ++v) {
      const Block& b = g_.blocks[v->block];
      const int64_t l = std::max<int64_t>(v->layer, 0);
      if (b.loss)
        move(stream, at, b.input, l);
      else
        move(gradient, at, b.output_gradient, l);
      run_ops(b.backward, l);
      gradient = b.input_gradient;
      at = l;
    }
  }

  void run_ops(const std::vector<Op>& ops, int64_t layer) {
    for (const Op& op : ops) {
      if (communicates(op))
        run_collective(op, layer);
      else
        for (int64_t r = 0; r < g_.mesh.ranks(); ++r) run_on(op, layer, r);
    }
  }

  // visit(global element, local element) for all that a rank holds.
  void each_element(ValueId v, int64_t rank,
                    const std::function<void(int64_t, int64_t)>& visit) const {
    const GlobalBox e = global_box_of(g_[v], g_.mesh, coordinates_of(g_.mesh, rank));
    const Shape &whole = g_[v].shape, &part = local_[v].shape;
    const int8_t by_token = g_[v].sharding.place[AxisKind::kContext];
    const auto ranges = [&](int d) -> std::vector<TokenRange> {
      if (d == by_token) return token_ranges(g_[v], g_.mesh, e);
      const auto i = static_cast<size_t>(d);
      return {{0, e.begin[i], e.end[i] - e.begin[i]}};
    };
    const std::function<void(int, int64_t, int64_t)> walk = [&](int d, int64_t from, int64_t to) {
      if (d == whole.rank()) return visit(from, to);
      for (const TokenRange& r : ranges(d))
        for (int64_t k = 0; k < r.count; ++k)
          walk(d + 1, from * whole[d] + r.first + k, to * part[d] + r.local + k);
    };
    walk(0, 0, 0);
  }

  static double get(const TensorView& t, int64_t i) {
    switch (t.dtype) {
      case DType::kF64:
        return t.as<double>()[i];
      case DType::kI32:
        return t.as<int32_t>()[i];
      case DType::kI64:
        return static_cast<double>(t.as<int64_t>()[i]);
      case DType::kU8:
        return t.as<uint8_t>()[i];
      case DType::kBF16:
        return static_cast<double>(static_cast<float>(t.as<BF16>()[i]));
      case DType::kF16:
        return static_cast<double>(static_cast<float>(t.as<F16>()[i]));
      default:
        return static_cast<double>(t.f32()[i]);
    }
  }
  static void put(const TensorView& t, int64_t i, double x) {
    switch (t.dtype) {
      case DType::kF64:
        t.as<double>()[i] = x;
        return;
      case DType::kI32:
        t.as<int32_t>()[i] = static_cast<int32_t>(x);
        return;
      case DType::kI64:
        t.as<int64_t>()[i] = static_cast<int64_t>(x);
        return;
      case DType::kU8:
        t.as<uint8_t>()[i] = static_cast<uint8_t>(x);
        return;
      case DType::kBF16:
        t.as<BF16>()[i] = BF16(static_cast<float>(x));
        return;
      case DType::kF16:
        t.as<F16>()[i] = F16(static_cast<float>(x));
        return;
      default:
        t.f32()[i] = static_cast<float>(x);
    }
  }

 private:
  using Bytes = std::vector<double>;  // aligned

  int64_t layer_of(ValueId v, int64_t layer) const {
    const Role r = g_[v].role;
    // What layers have in common: a table of biases, an encoder's output.
    const bool common = !(g_[v].indexed_by & kPerLayer) &&
                        (r == Role::kWeight || r == Role::kGradient || r == Role::kHidden);
    const bool once = is_batch(r) || r == Role::kStep || r == Role::kReport || common;
    return once ? 0 : layer;
  }

  void move(ValueId from, int64_t from_layer, ValueId to, int64_t to_layer) {
    for (int64_t r = 0; r < g_.mesh.ranks(); ++r) {
      const TensorView x = view(r, from, from_layer), y = view(r, to, to_layer);
      CHECK(x.shape == y.shape && g_[from].sharding == g_[to].sharding, "{} is not as {}",
            g_[from].name, g_[to].name);
      std::memcpy(y.data, x.data, static_cast<size_t>(y.bytes()));
    }
  }

  void run_on(const Op& op, int64_t layer, int64_t rank) {
    const runtime::RankPosition position = {g_.mesh, coordinates_of(g_.mesh, rank)};
    runtime::BoundOp b;
    b.op = &op;
    b.position = &position;
    b.values = g_.values;
    b.layer = layer;
    for (const ValueId v : op.inputs) b.inputs.push_back(view(rank, v, layer));
    for (const ValueId v : op.outputs) b.outputs.push_back(view(rank, v, layer));
    b.fresh.resize(op.outputs.size());
    const auto workspace = kernels_.target().workspace_bytes(op, local_);
    std::vector<std::max_align_t> scratch(
        static_cast<size_t>(workspace) / sizeof(std::max_align_t) + 8);
    // Workspaces start at multiples of 64 bytes.
    const auto address = reinterpret_cast<uintptr_t>(scratch.data());
    b.launch.workspace = reinterpret_cast<void*>((address + 63) / 64 * 64);
    b.prepared = kernels_.prepared(op, local_);
    if (kernels_.backend().has_streams())
      run_on_gpu(b);
    else if (const auto run = runtime::binding_of(op.kind()).run)
      run(b);
  }

  // The op's operands in memory of the device, each where another has the same bytes too.
  void run_on_gpu(const runtime::BoundOp& given) {
    const GpuStream stream;
    std::map<void*, DeviceBuffer> buffers;
    runtime::BoundOp b = given;
    b.kernels = &kernels_.table();
    b.launch.stream = stream.get();
    const auto bring = [&](TensorView& t) {
      if (!t) return;
      DeviceBuffer& buffer = buffers[t.data];
      if (buffer.bytes() < t.bytes()) buffer = DeviceBuffer("an operand", t.bytes());
      copy_in_stream(b.launch.stream, buffer.data(), t.data, t.bytes());
      synchronise(b.launch.stream);
      t.data = buffer.data();
    };
    for (TensorView& t : b.inputs) bring(t);
    for (TensorView& t : b.outputs) bring(t);
    const DeviceBuffer workspace("a workspace",
                                 kernels_.target().workspace_bytes(*b.op, local_) + 64);
    b.launch.workspace = workspace.data();
    runtime::binding_of(b.op->kind()).run(b);
    for (size_t i = 0; i < b.outputs.size(); ++i)
      copy_in_stream(b.launch.stream, given.outputs[i].data, b.outputs[i].data,
                     given.outputs[i].bytes());
    synchronise(b.launch.stream);
  }

  // Every rank gets the shard of the previous rank of its group.
  void run_rotate(const Op& op, int64_t layer) {
    for (int64_t r = 0; r < g_.mesh.ranks(); ++r) {
      const std::vector<int64_t> group = group_of(g_.mesh, *over_of(op.attributes), r);
      const auto own = std::find(group.begin(), group.end(), r) - group.begin();
      const int64_t from = group[(own + group.size() - 1) % group.size()];
      const TensorView x = view(from, op.inputs[0], layer), y = view(r, op.outputs[0], layer);
      std::memcpy(y.data, x.data, static_cast<size_t>(y.bytes()));
    }
  }

  // Every rank's result from what the ranks of its group hold.
  void run_collective(const Op& op, int64_t layer) {
    if (op.is<Rotate>()) return run_rotate(op, layer);
    const ValueId x = op.inputs[0], y = op.outputs[0];
    const GroupRef& over = *over_of(op.attributes);
    const AllReduce* const sum = op.if_as<AllReduce>();
    const bool max = sum != nullptr && sum->max;
    for (int64_t r = 0; r < g_.mesh.ranks(); ++r) {
      const TensorView out = view(r, y, layer);
      Array whole(static_cast<size_t>(g_[x].shape.elements()), 0.0);
      bool first = true;
      for (const int64_t member : group_of(g_.mesh, over, r)) {
        const TensorView in = view(member, x, layer);
        each_element(x, member, [&](int64_t to, int64_t from) {
          double& w = whole[static_cast<size_t>(to)];
          if (max)
            w = first ? get(in, from) : std::max(w, get(in, from));
          else
            w += get(in, from);
        });
        first = false;
      }
      each_element(
          y, r, [&](int64_t from, int64_t to) { put(out, to, whole[static_cast<size_t>(from)]); });
    }
  }

  Graph g_;
  ValueVector local_;  // whose shapes are one rank's
  runtime::PreparedKernels& kernels_;
  std::vector<std::map<std::pair<ValueId, int64_t>, Bytes>> ranks_;
};

}  // namespace tessera::testing
