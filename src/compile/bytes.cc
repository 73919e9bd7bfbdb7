#include "compile/bytes.h"

#include <algorithm>
#include <numeric>

namespace tessera {

std::vector<std::vector<FrameId>> sharing_frames(const Program& p) {
  std::vector<std::vector<FrameId>> sharing(p.frames.size());
  std::vector<FrameId> order;
  for (FrameId f = 0; f < static_cast<FrameId>(p.frames.size()); ++f) {
    sharing[static_cast<size_t>(f)].push_back(f);
    if (p.bytes_of(f) > 0) order.push_back(f);
  }
  std::sort(order.begin(), order.end(),
            [&](FrameId a, FrameId b) { return p.frame(a).offset < p.frame(b).offset; });
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t end = p.frame(order[i]).offset + p.bytes_of(order[i]);
    for (size_t j = i + 1; j < order.size() && p.frame(order[j]).offset < end; ++j) {
      sharing[static_cast<size_t>(order[i])].push_back(order[j]);
      sharing[static_cast<size_t>(order[j])].push_back(order[i]);
    }
  }
  return sharing;
}

std::vector<FrameId> frames_in(const Program& p, int64_t offset, int64_t bytes) {
  std::vector<FrameId> in;
  for (FrameId f = 0; f < static_cast<FrameId>(p.frames.size()); ++f)
    if (p.bytes_of(f) > 0 && p.frame(f).offset < offset + bytes &&
        offset < p.frame(f).offset + p.bytes_of(f))
      in.push_back(f);
  return in;
}

}  // namespace tessera
