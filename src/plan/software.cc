// Reads software files, which describe a training program by options of the compiler and the
// simulator.
#include "plan/software.h"

namespace tessera::plan {
namespace {

constexpr double kMostImbalance = 1e4;  // all tokens on one of 10,000 ranks

void check_time(double s, const char* key, const SourceLocations& places) {
  constexpr double kMost = 10;  // longer host times are implausible
  if (s >= 0 && s <= kMost) return;
  throw Error("{}: {} = {}: expected seconds in [0, {}] (20 µs is 20e-6).", places.at(key), key, s,
              kMost);
}

}  // namespace

Software read_software(const Tree& tree, const std::string& source,
                       std::span<const std::string> overrides) {
  Software s;
  const std::vector<Field> fields = fields_of(s);
  read_fields(fields, tree, source, s.places);
  for (const std::string& o : overrides) read_override(fields, parse_override(o), s.places);
  if (s.name.empty())
    throw Error(
        "{}: name is missing. A software file gives the name of a training program and the options "
        "in which it differs from Tessera; configs/software/ has examples.",
        source);
  check_time(s.launch_s, "launch_s", s.places);
  check_time(s.step_s, "step_s", s.places);
  if (!(s.attention_share > 0 && s.attention_share <= 1))
    throw Error("{}: attention_share = {}: expected a value in (0, 1].",
                s.places.at("attention_share"), s.attention_share);
  if (!(s.expert_imbalance >= 1 && s.expert_imbalance <= kMostImbalance))
    throw Error("{}: expert_imbalance = {}: expected a value in [1, {}], where 1 is even.",
                s.places.at("expert_imbalance"), s.expert_imbalance, kMostImbalance);
  return s;
}

Software load_software(const Path& path, std::span<const std::string> overrides) {
  return read_software(parse_yaml(read_file(path), path.string()), path.string(), overrides);
}

// If the compute processor also performs the transfers, nothing overlaps.
Software on_machine(Software software, const Hardware& hardware) {
  if (hardware.node.by_processor)
    software.overlap_data = software.overlap_pipeline = software.overlap_tensor = false;
  return software;
}

// Only compiler options that the software file sets replace those of the request.
compile::CompileRequest as_compiled_by(const Software& software, compile::CompileRequest request) {
  Software copy = software;
  const std::vector<Field> from = fields_of(copy.compiler, "compiler.");
  const std::vector<Field> to = fields_of(request.options, "compiler.");
  for (size_t i = 0; i < from.size(); ++i)
    if (software.places.contains(from[i].path)) to[i].read(from[i].write(), {});
  return request;
}

void read_value(const Tree& tree, KernelCounts& value, const SourceLocation& place) {
  value.clear();
  if (tree.as_members() == nullptr) wrong_value(tree, "counts by the name of the op", place);
  for (const auto& [name, count] : *tree.as_members()) {
    int64_t n = 0;
    check_op_name(name, count, place);
    tessera::read_value(count, n, place);
    if (n < 0) throw Error("{}: {}.{} = {}: expected 0 or more.", place.at, place.path, name, n);
    value[name] = n;
  }
}

Tree write_value(const KernelCounts& x) {
  Tree t = Tree::object();
  for (const auto& [name, count] : x) t.set(name, Tree(count));
  return t;
}

std::string type_name(const KernelCounts&) { return "counts by op"; }

}  // namespace tessera::plan
