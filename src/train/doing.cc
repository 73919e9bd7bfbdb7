#include "train/doing.h"

#include <iterator>

#include "base/error.h"
#include "ir/names.h"
#include "ir/rule.h"

namespace tessera {

std::string describe(const OpStart& at) {
  std::string out;
  const auto to = std::back_inserter(out);
  fmt::format_to(to, "{}", at.segment.name());
  if (at.call.layer != kNone) fmt::format_to(to, " of layer {}", at.call.layer);
  if (at.call.microbatch != kNone) fmt::format_to(to, ", micro-batch {}", at.call.microbatch);
  fmt::format_to(to, ": {}", name_of(at.op.kind()));
  if (!at.op.origin.empty()) fmt::format_to(to, " of {}", at.op.origin);
  const GroupRef* const group = over_of(at.op.attributes);
  const std::string over = group != nullptr ? to_string(*group) : partners_of(at.call.wire);
  if (!at.op.chunk.is_whole())
    fmt::format_to(to, ", chunk {} of {}", at.op.chunk.index + 1, at.op.chunk.count);
  if (is_inner(at.op.queue)) fmt::format_to(to, " on queue {}", name_of(at.op.queue));
  if (at.waits && !over.empty()) fmt::format_to(to, " over {}", over);
  return out;
}

}  // namespace tessera
