// The alpha-beta model of collectives: latency per hop plus bytes divided by bandwidth, for rings,
// trees and hierarchical algorithms (links.h). With n members, B bytes and p passes (2 for
// all-reduce, else 1):
//
//   ring          p ((n-1)/n B / rate + hops)
//   tree          2 (B / rate + log2 hops)
//   hierarchical  ring of the k members within a node, then p ((N-1)/N (B/k) / network rate + hops)
//                 between N nodes, where each of the k members has 1/k of the bytes
#include "plan/links.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/real.h"

namespace tessera::plan {
namespace {

int64_t node_of(int64_t rank, const Hardware& h) { return rank / h.node.devices; }
int64_t package_of(int64_t rank, const Hardware& h) {
  return rank / std::max<int64_t>(h.node.package_devices, 1);
}

// Returns the number of ranks per stage. The pipeline is the outermost axis, so the ranks of a
// stage are consecutive.
int64_t ranks_of_stage(const Mesh& mesh) { return mesh.ranks() / mesh[AxisKind::kPipeline]; }

// Returns the rate of one device over the network while `sharing` devices of its node send at once.
double network_rate(int64_t sharing, const Hardware& h) {
  const NetworkFigures& n = h.network;
  const double adapter = ratio(n.bytes_per_s, std::max<int64_t>(n.adapters, 1));
  return std::min(adapter, ratio(n.bytes_per_s, std::max<int64_t>(sharing, 1))) * n.efficiency;
}

double node_rate(bool package, const Hardware& h) {
  const double rate =
      package && h.node.package_bytes_per_s > 0 ? h.node.package_bytes_per_s : h.node.bytes_per_s;
  return rate * h.node.efficiency;
}

// Returns the passes over the data: an all-reduce is a reduce-scatter and an all-gather.
double passes_of(CommKind kind) { return kind == CommKind::kAllReduce ? 2 : 1; }

double ring_s(double bytes, const GroupShape& g, double passes, const Hardware& h) {
  const auto n = static_cast<double>(g.members);
  const bool local = g.nodes == 1;
  // The ring of a group leaves the node through one of its members.
  const double rate =
      local ? node_rate(g.package, h) : std::min(node_rate(false, h), network_rate(g.at_once, h));
  const double inside = real_product(g.members - g.nodes, h.node.latency_s);
  const double hops =
      local ? (n - 1) * h.node.latency_s : inside + real_product(g.nodes - 1, h.network.latency_s);
  return passes * ((n - 1) / n * bytes / rate + hops);
}

double tree_s(double bytes, const GroupShape& g, const Hardware& h) {
  const bool local = g.nodes == 1;
  const double rate =
      local ? node_rate(g.package, h) : std::min(node_rate(false, h), network_rate(g.at_once, h));
  const double hops = std::ceil(std::log2(g.per_node)) * h.node.latency_s +
                      std::ceil(std::log2(g.nodes)) * h.network.latency_s;
  return 2 * (bytes / rate + hops);
}

double hierarchical_s(double bytes, const GroupShape& g, double passes, const Hardware& h) {
  const auto k = static_cast<double>(g.per_node), nodes = static_cast<double>(g.nodes);
  const GroupShape inner{g.per_node, 1, g.per_node, false, g.at_once};
  const double inside = ring_s(bytes, inner, passes, h);
  const double part = bytes / k;
  const double rate = network_rate(g.at_once * g.per_node, h);
  return inside + passes * ((nodes - 1) / nodes * part / rate + (nodes - 1) * h.network.latency_s);
}

GroupShape shape_of(const std::vector<int64_t>& ranks, const Hardware& h) {
  GroupShape g;
  g.members = std::ssize(ranks);
  std::map<int64_t, int64_t> nodes;
  std::set<int64_t> packages;
  for (const int64_t r : ranks) {
    ++nodes[node_of(r, h)];
    packages.insert(package_of(r, h));
  }
  g.nodes = std::ssize(nodes);
  g.per_node = 0;
  for (const auto& [node, members] : nodes) g.per_node = std::max(g.per_node, members);
  g.package = packages.size() == 1 && h.node.package_devices > 1;
  return g;
}

}  // namespace

GroupShape group_shape(const Mesh& mesh, const GroupRef& over, int64_t stage,
                       const Hardware& hardware, bool hierarchical) {
  const int64_t first = stage * ranks_of_stage(mesh);
  GroupShape g = shape_of(group_of(mesh, over, first), hardware);
  // Counts the groups on the first rank's node: the ranks of this stage there, divided by per_node.
  const int64_t end = std::min((node_of(first, hardware) + 1) * hardware.node.devices,
                               first + ranks_of_stage(mesh));
  g.at_once = std::max<int64_t>((end - first) / std::max<int64_t>(g.per_node, 1), 1);
  g.hierarchical = hierarchical;
  return g;
}

GroupShape message_shape(const Mesh& mesh, int64_t from, int64_t to, const Hardware& hardware) {
  const int64_t n = ranks_of_stage(mesh);
  GroupShape g = shape_of({from * n, to * n}, hardware);
  // All ranks of the stage on one node send at once: counts those that send to another node.
  int64_t crossing = 0;
  for (int64_t r = 0; r < std::min(n, hardware.node.devices); ++r)
    if (node_of(from * n + r, hardware) != node_of(to * n + r, hardware)) ++crossing;
  if (crossing > 0) g.nodes = 2;
  g.at_once = std::max<int64_t>(crossing, 1);
  return g;
}

double collective_s(CommKind kind, double bytes, const GroupShape& group,
                    const Hardware& hardware) {
  if (group.members == 1) return 0;
  if (kind == CommKind::kRotate) return message_s(bytes, group, hardware);
  const double passes = passes_of(kind);
  double best = ring_s(bytes, group, passes, hardware);
  if (kind == CommKind::kAllReduce) best = std::min(best, tree_s(bytes, group, hardware));
  const bool whole = group.per_node == hardware.node.devices;
  if (group.nodes > 1 && group.per_node > 1 && (group.hierarchical || whole))
    best = std::min(best, hierarchical_s(bytes, group, passes, hardware));
  return best;
}

double message_s(double bytes, const GroupShape& pair, const Hardware& hardware) {
  if (pair.nodes == 1) return bytes / node_rate(pair.package, hardware) + hardware.node.latency_s;
  return bytes / network_rate(pair.at_once, hardware) + hardware.network.latency_s;
}

}  // namespace tessera::plan
