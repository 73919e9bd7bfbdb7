#include "train/layout_line.h"

#include <fmt/format.h>

#include "base/config.h"

namespace tessera {

std::string layout_line(const RunConfig& c) {
  const Layout& l = c.layout;
  std::string axes;
  const std::pair<const char*, int64_t> sizes[] = {
      {"data", l.data}, {"tensor", l.tensor}, {"pipeline", l.pipeline}};
  for (const auto& [name, n] : sizes)
    if (n > 1) axes += fmt::format("{}{} {}", axes.empty() ? " = " : " × ", name, n);
  const int64_t ranks = l.data * l.tensor * l.pipeline;
  std::string line =
      fmt::format("layout    {} rank{}{} · {} thread{} each", ranks, ranks > 1 ? "s" : "", axes,
                  c.run.threads, c.run.threads > 1 ? "s" : "");
  if (l.expert > 1) line += fmt::format(" · experts over {}", l.expert);
  if (l.data > 1) line += fmt::format(" · ZeRO {}", l.zero);
  if (l.pipeline > 1) line += fmt::format(" · {}", name_of_entry(l.pipeline_schedule));
  if (l.offload != "none") line += fmt::format(" · offload {}", l.offload);
  return line + fmt::format(" · recompute {}", l.recompute);
}

}  // namespace tessera
