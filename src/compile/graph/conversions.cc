// Inserts the conversions that the chosen signatures need. A value that several ops need in the
// same other sharding is converted once, before the first of them.
#include "compile/graph/conversions.h"

#include <map>
#include <utility>

#include "base/error.h"
#include "ir/builder.h"

namespace tessera {

void insert_conversions(Graph& graph, Block& block, std::vector<Planned>& plans,
                        const DefaultPlaces& home, uint8_t per) {
  std::vector<Op> ops;
  Builder b(graph, ops, per, "");
  std::map<std::pair<ValueId, std::array<int8_t, kMaxAxes>>, ValueId> made;
  const auto at_places = [&](ValueId v, const Sharding& wanted) {
    if (graph[v].sharding == wanted) return v;
    CHECK(graph[v].role != Role::kWeight, "{} is used at two places: say what divides it",
          graph[v].name);
    const auto [entry, is_new] = made.try_emplace({v, wanted.place}, kNone);
    if (is_new) entry->second = b.convert(v, wanted);
    return entry->second;
  };
  for (Planned& p : plans) {
    for (size_t i = 0; i < p.op.inputs.size(); ++i)
      p.op.inputs[i] = at_places(p.op.inputs[i], p.wanted[i]);
    ops.push_back(std::move(p.op));
  }
  if (block.output != kNone) {
    Sharding wanted = graph[block.output].sharding;
    for (const size_t a : divided_axes(graph.mesh))
      wanted.place[a] = home.of(graph[block.output], a);
    // The block's output leaves in its home sharding, so the next block can be compiled without
    // knowledge of this one. The roles are exchanged: the converted value becomes the hidden
    // states.
    const ValueId leaving = at_places(block.output, wanted);
    if (leaving != block.output) {
      std::swap(graph[leaving].role, graph[block.output].role);
      std::swap(graph[leaving].per, graph[block.output].per);
      block.output = leaving;
    }
  }
  block.forward = std::move(ops);
}

}  // namespace tessera
