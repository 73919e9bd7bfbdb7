// A small program and graph by hand that have something in every field.
#pragma once

#include "ir/builder.h"
#include "ir/program.h"
#include "ir/state.h"

namespace tessera::testing {

struct Sample {
  Graph graph;
  ValueId hidden, gain, bias, weight, out, stats, step, report;
};

// norm and matmul of [2, 8, 16] by [32, 16].
inline Sample sample_graph() {
  Sample s;
  Graph& g = s.graph;
  g.sequences = 2;
  g.tokens = 8;
  Block& b = g.blocks[g.blocks.emplace_back()];
  b.name = "layer";
  b.at = {0, 1, 2};
  Builder build(g, b.forward, kPerLayer | kPerMicrobatch, "layer");
  s.hidden = build.value("input", DType::kF32, {2, 8, 16}, Role::kHidden, kPerLayer);
  s.gain = build.value("norm.gain", DType::kF32, {16}, Role::kWeight, kPerLayer);
  s.bias = build.value("norm.bias", DType::kF32, {16}, Role::kWeight, kPerLayer);
  s.weight = build.value("up.weight", DType::kF32, {32, 16}, Role::kWeight, kPerLayer);
  const auto norm = build.emit(Norm{.epsilon = 1e-5}, "norm", {s.hidden, s.gain, s.bias});
  s.stats = norm[1];
  s.out = build.emit_one(Matmul{}, "up", {norm[0], s.weight});
  b.input = s.hidden;
  b.output = s.out;
  return s;
}

// The graph above as forward.layer on one layer, laid out by hand, and a call that clears a report.
inline Program sample_program() {
  Sample s = sample_graph();
  Program p;
  p.name = "train";
  p.values = s.graph.values;
  const auto lay = [&](const char* name, std::vector<ValueId> values, bool state) {
    BufferKind k;
    k.name = name;
    k.state = state;
    k.values = values;
    for (const ValueId v : values) {
      Value& value = p.values[v];
      value.buffer = p.kinds.next_id();
      value.offset = k.bytes;
      k.indexed_by = value.indexed_by;
      k.bytes += value.bytes();
    }
    p.kinds.push_back(k);
  };
  Value report;
  report.name = "report";
  report.dtype = DType::kF64;
  report.shape = {kReportSize};
  report.role = Role::kReport;
  s.report = p.values.push_back(report);
  lay("layer.weights", {s.gain, s.bias, s.weight}, true);
  lay("report", {s.report}, true);
  lay("hidden", {s.hidden}, false);
  lay("hidden'", {s.out}, false);
  p.kinds[BufferKindId(3)].input = BufferKindId(2);

  Op clear;
  clear.attributes = Clear{};
  clear.outputs = {s.report};
  Segment first;
  first.phase = Phase::kClear;
  first.buffers = {{BufferKindId(1), Access::kWrite}};
  first.ops = {clear};
  Segment second;
  second.phase = Phase::kForward;
  second.subject = "layer";
  second.buffers = {{BufferKindId(0), Access::kRead},
                    {BufferKindId(2), Access::kRead},
                    {BufferKindId(3), Access::kWrite}};
  second.ops = s.graph.blocks.front().forward;
  for (const ValueId v : second.ops[0].outputs) {
    p.values[v].offset = second.scratch_bytes;
    second.scratch_bytes += p[v].bytes();
  }
  p.segments = {first, second};

  p.buffers = {{BufferKindId(0), 0, kNone, 0, true},
               {BufferKindId(1), kNone, kNone, 2176, true},
               {BufferKindId(2), 0, 0, 5248, false},
               {BufferKindId(2), 1, 0, 7296, false}};
  p.kinds[BufferKindId(2)].bytes = p.kinds[BufferKindId(3)].bytes;
  p.schedule.resize(2);
  p.schedule[CallId(0)].segment = SegmentId(0);
  p.schedule[CallId(0)].buffers = {BufferId(1)};
  p.schedule[CallId(0)].first_write = {false};
  p.schedule[CallId(1)].segment = SegmentId(1);
  p.schedule[CallId(1)].layer = 0;
  p.schedule[CallId(1)].microbatch = 0;
  p.schedule[CallId(1)].buffers = {BufferId(0), BufferId(2), BufferId(3)};
  p.schedule[CallId(1)].first_write = {false, false, false};
  p.state_bytes = 2368;
  p.scratch_offset = 2432;
  p.bytes = 12000;
  p.live_bytes = 11000;
  return p;
}

}  // namespace tessera::testing
