// Reads, parses and prints the degrees of parallelism of an evaluation.
#include "eval/evaluation_layout.h"

#include <charconv>
#include <utility>

#include "base/error.h"

namespace tessera::eval {
namespace {

struct Degree {
  const char* name;
  int64_t compile::Layout::*value;
};
constexpr Degree kDegrees[] = {{"data", &compile::Layout::data},
                               {"tensor", &compile::Layout::tensor},
                               {"pipeline", &compile::Layout::pipeline},
                               {"context", &compile::Layout::context},
                               {"expert", &compile::Layout::expert},
                               {"zero", &compile::Layout::zero},
                               {"zero_group", &compile::Layout::zero_group}};
constexpr const char* kForm =
    "expected data, tensor, pipeline, context, expert, zero or zero_group with a number, as in "
    "tensor=2,pipeline=2";

// Throws Error for degrees that no mesh of ranks has.
void check_degrees(const compile::Layout& layout) {
  constexpr int64_t kMostRanks = int64_t{1} << 20;
  int64_t ranks = 1;
  for (const Degree& d : kDegrees) {
    const bool may_be_0 =
        d.value == &compile::Layout::zero || d.value == &compile::Layout::zero_group;
    const int64_t n = layout.*d.value, least = may_be_0 ? 0 : 1;
    if (n < least || n > kMostRanks)
      throw Error("{}={}: expected {} to {}", d.name, n, least, kMostRanks);
    const bool of_experts = d.value == &compile::Layout::expert;  // they are data-parallel ranks
    if (!may_be_0 && !of_experts) ranks *= n;
    if (ranks > kMostRanks) throw Error("{}: more than {} ranks", to_string(layout), kMostRanks);
  }
  if (layout.data % layout.expert != 0)
    throw Error("expert={}: does not divide data={}; expected for example data={},expert={}",
                layout.expert, layout.data, layout.expert, layout.expert);
}

}  // namespace

compile::Layout run_layout(const checkpoint::CheckpointReader& checkpoint) {
  compile::Layout layout;
  const Tree& config = checkpoint.header().config;
  const Tree* stored = config.as_members() == nullptr ? nullptr : config.find("layout");
  if (stored == nullptr || stored->as_members() == nullptr) return layout;
  for (const Degree& d : kDegrees)
    if (const Tree* value = stored->find(d.name))
      if (const auto* n = std::get_if<int64_t>(&value->value)) layout.*d.value = *n;
  try {
    check_degrees(layout);
  } catch (const Error& e) {
    throw Error("{}: layout of the run: {}", checkpoint.folder().string(), e.what());
  }
  return layout;
}

compile::Layout evaluation_layout(const compile::Layout& run) {
  compile::Layout layout;
  layout.data = run.data;
  layout.tensor = run.tensor;
  layout.pipeline = run.pipeline;
  layout.context = run.context;
  layout.expert = run.expert;
  layout.zero = run.zero == 3 ? 3 : 0;
  layout.zero_group = run.zero == 3 ? run.zero_group : 0;
  // Without a backward, no norms or residuals are kept that ranks could divide.
  layout.sequence_parallel = false;
  return layout;
}

int64_t ranks_of(const compile::Layout& l) { return compile::mesh_of(l, 1).ranks(); }

bool divides_model(const compile::Layout& l) {
  return l.tensor > 1 || l.pipeline > 1 || l.expert > 1 || (l.zero == 3 && l.data * l.context > 1);
}

std::string to_string(const compile::Layout& layout) {
  std::string text;
  for (const Degree& d : kDegrees) {
    const bool of_state = d.value == &compile::Layout::zero;
    const int64_t least = of_state ? 2 : d.value == &compile::Layout::zero_group ? 0 : 1;
    if (layout.*d.value > least)
      text += fmt::format("{}{}={}", text.empty() ? "" : ",", d.name, layout.*d.value);
  }
  return text.empty() ? "1 rank" : text;
}

compile::Layout parse_layout(const std::string& text) {
  compile::Layout layout;
  layout.zero = 0;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string entry = text.substr(at, end - at);
    const size_t sign = std::min(entry.find('='), entry.size());
    const Degree* degree = nullptr;
    for (const Degree& d : kDegrees)
      if (entry.substr(0, sign) == d.name) degree = &d;
    int64_t n = 0;
    const char* first = entry.data() + std::min(sign + 1, entry.size());
    const auto [last, error] = std::from_chars(first, entry.data() + entry.size(), n);
    if (degree == nullptr || error != std::errc() || last != entry.data() + entry.size() || n < 0)
      throw Error("'{}': {}", entry, kForm);
    layout.*(degree->value) = n;
    at = end + 1;
  }
  check_degrees(layout);
  if (layout.zero > 3) throw Error("zero={}: expected 0 to 3", layout.zero);
  return layout;
}

}  // namespace tessera::eval
