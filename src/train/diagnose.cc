// Finds the first value that is not finite, by running the last step again and testing every output
// of every op. The step is deterministic, so the same values appear.
#include "train/diagnose.h"

#include <cmath>
#include <optional>

#include "base/count.h"
#include "checkpoint/convert.h"
#include "ir/names.h"
#include "ir/rule.h"
#include "train/value_record.h"

namespace tessera::train {
namespace {

struct Bad {
  std::string kind;  // "NaN", "+inf", "-inf"
  int64_t element = 0;
};

std::string kind_of(double x) { return std::isnan(x) ? "NaN" : x > 0 ? "+inf" : "-inf"; }

std::optional<Bad> find_bad(const runtime::OpEvent& e, const TensorView& t) {
  // The device's search supports the 16-bit types and f32; the few f64 values are tested on the
  // host.
  if (t.dtype == DType::kF64) {
    const TensorView host = e.host(t);
    for (int64_t i = 0; i < host.elements(); ++i)
      if (!std::isfinite(host.as<double>()[i])) return Bad{kind_of(host.as<double>()[i]), i};
    return std::nullopt;
  }
  if (t.dtype != DType::kF32 && t.dtype != DType::kBF16 && t.dtype != DType::kF16)
    return std::nullopt;
  const int64_t i = e.first_non_finite(t);
  if (i < 0) return std::nullopt;
  const TensorView element = e.host({t.as<std::byte>() + i * size_of(t.dtype), t.dtype, {1}});
  double x = 0;
  checkpoint::convert(element.as<std::byte>(), t.dtype, reinterpret_cast<std::byte*>(&x),
                      DType::kF64, 1);
  return Bad{kind_of(x), i};
}

std::string place(const runtime::OpEvent& e) {
  const Segment& s = e.segment;
  std::string text;
  if (e.call.layer != kNone) text = fmt::format("{} {}, ", s.subject, e.call.layer);
  text += s.phase == Phase::kJoint ? s.subject : name_of(s.phase);
  if (e.call.microbatch != kNone) text += fmt::format(", micro-batch {}", e.call.microbatch);
  const Op& op = *e.op.op;
  if (is_inner(op.queue)) text += fmt::format(", queue {}", name_of(op.queue));
  if (!op.chunk.is_whole())
    text += fmt::format(", chunk {} of {}", op.chunk.index + 1, op.chunk.count);
  return fmt::format("{}, {} ({})", text, op.origin, name_of(op.kind()));
}

}  // namespace

std::string first_bad_value(Trainer& trainer, comm::World& world) {
  std::string found;
  bool received = false;  // the value came from another rank, whose report has more detail
  // Values that no op reads have undefined contents.
  const IdVector<ValueId, bool> live = live_values(trainer.program());
  trainer.repeat([&](const runtime::OpEvent& e) {
    if (!found.empty() || rule_of(*e.op.op).effects.may_be_infinite) return;
    for (size_t o = 0; o < e.op.op->outputs.size(); ++o) {
      if (const ValueId v = e.op.op->outputs[o]; v != kNone && !live[v]) continue;
      const std::optional<Bad> bad = find_bad(e, e.op.outputs[o]);
      if (!bad) continue;
      std::string inputs = "its inputs are finite";
      received = e.op.channel != nullptr;
      for (size_t i = 0; i < e.op.op->inputs.size(); ++i)
        // An op that works in place has its output among its inputs; that is not a cause.
        if (const auto in = find_bad(e, e.op.inputs[i]);
            in && e.op.inputs[i].data != e.op.outputs[o].data) {
          received = false;
          inputs = fmt::format("its input {} already holds {}",
                               trainer.program()[e.op.op->inputs[i]].name, in->kind);
        }
      found = fmt::format("{}: {} at element {} of {}; {}", place(e), bad->kind,
                          format_count(bad->element), to_string(e.op.outputs[o].shape), inputs);
      return;
    }
  });
  // '=' marks a value that this rank computed, '<' one that it received. A rank that computed the
  // value is reported in preference, and of these the one with the lowest number.
  if (!found.empty()) found = (received ? '<' : '=') + found;
  const std::vector<std::string> all = world.all_gather(found);
  for (const char origin : {'=', '<'})
    for (size_t rank = 0; rank < all.size(); ++rank)
      if (all[rank].starts_with(origin))
        return all.size() == 1 ? all[rank].substr(1)
                               : fmt::format("rank {}, {}", rank, all[rank].substr(1));
  return "none: all values were finite when the step was run again";
}

}  // namespace tessera::train
