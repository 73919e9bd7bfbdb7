#include "plan/hardware.h"

#include <cmath>

namespace tessera {
namespace {

struct Bound {
  const char* path;
  bool zero;   // may be 0
  bool share;  // at most 1
};
// What must be given, and the limits of it and of what may be left out.
constexpr Bound kRequired[] = {{"device.memory_bytes", false, false},
                               {"device.memory_bytes_per_s", false, false},
                               {"device.memory_efficiency", false, true},
                               {"device.bf16_flops_per_s", false, false},
                               {"device.fp32_flops_per_s", false, false},
                               {"device.matrix_efficiency", false, true},
                               {"node.devices", false, false},
                               {"node.bytes_per_s", false, false},
                               {"node.efficiency", false, true},
                               {"node.latency_s", true, false},
                               {"network.bytes_per_s", false, false},
                               {"network.efficiency", false, true},
                               {"network.latency_s", true, false}};
constexpr Bound kOptional[] = {{"device.attention_efficiency", false, true},
                               {"device.processors", true, false},
                               {"device.kernel_s", true, false},
                               {"device.outside_bytes", true, false},
                               {"node.package_devices", false, false},
                               {"node.package_bytes_per_s", true, false},
                               {"network.adapters", false, false},
                               {"price.usd_per_device_hour", true, false}};

double number_in(const Field& f) {
  const Tree t = f.write();
  if (const auto* i = std::get_if<int64_t>(&t.value)) return static_cast<double>(*i);
  const auto* d = std::get_if<double>(&t.value);
  return d != nullptr ? *d : kNotGiven;
}

void check_figure(std::span<const Field> fields, const Bound& b, bool required,
                  const std::string& source, const Places& places) {
  const Field& f = find_field(fields, b.path, "");
  const auto place = places.find(b.path);
  if (place == places.end()) {
    if (required)
      throw Error("{}: {} is missing: {}. Add it, with where it is from in a comment.", source,
                  b.path, f.help);
    return;
  }
  const double x = number_in(f);
  if (!(x >= 0) || std::isinf(x) || (x == 0 && !b.zero))
    throw Error("{}: {} = {}: wanted {}.", place->second, b.path, x,
                b.zero ? "0 or more" : "more than 0");
  if (b.share && x > 1)
    throw Error("{}: {} = {}: wanted a share of 1 (of what the specification says).", place->second,
                b.path, x);
}

std::string place_of(const Tree& t, const Place& place) {
  return t.line == 0 ? fmt::format("{}: {}", place.at, place.path)
                     : fmt::format("{}: {} (line {})", place.at, place.path, t.line);
}

double positive(const Tree& t, const Place& place) {
  double x = 0;
  read_value(t, x, place);
  if (x <= 0) throw Error("{} = {}: wanted more than 0.", place_of(t, place), x);
  return x;
}

}  // namespace

Hardware read_hardware(const Tree& tree, const std::string& source,
                       std::span<const std::string> overrides) {
  Hardware h;
  const std::vector<Field> fields = fields_of(h);
  Places places;
  read_fields(fields, tree, source, places);
  for (const std::string& o : overrides) read_override(fields, parse_override(o), places);
  for (const Bound& b : kRequired) check_figure(fields, b, true, source, places);
  for (const Bound& b : kOptional) check_figure(fields, b, false, source, places);
  return h;
}

Hardware load_hardware(const Path& path, std::span<const std::string> overrides) {
  return read_hardware(parse_yaml(read_file(path), path.string()), path.string(), overrides);
}

void read_value(const Tree& tree, std::vector<MeasuredProduct>& value, const Place& place) {
  value.clear();
  if (tree.as_list() == nullptr)
    wrong_value(tree, "a list of {type, kind, m, n, k, flops_per_s}", place);
  for (const Tree& t : *tree.as_list()) {
    MeasuredProduct r;
    const auto member = [&](const char* name) -> const Tree& {
      const Tree* found = t.find(name);
      if (found == nullptr) throw Error("{}: a product without '{}'.", place_of(t, place), name);
      return *found;
    };
    read_value(member("type"), r.type, place);
    read_value(member("kind"), r.kind, place);
    r.m = static_cast<int64_t>(positive(member("m"), place));
    r.n = static_cast<int64_t>(positive(member("n"), place));
    r.k = static_cast<int64_t>(positive(member("k"), place));
    r.flops_per_s = positive(member("flops_per_s"), place);
    value.push_back(std::move(r));
  }
}

void read_value(const Tree& tree, OpRates& value, const Place& place) {
  value.clear();
  if (tree.as_members() == nullptr) wrong_value(tree, "rates by the name of the op", place);
  for (const auto& [name, rate] : *tree.as_members()) value[name] = positive(rate, place);
}

Tree write_value(const std::vector<MeasuredProduct>& x) {
  Tree all = Tree::list();
  for (const MeasuredProduct& r : x) {
    Tree t;
    t.set("type", Tree(r.type));
    t.set("kind", Tree(r.kind));
    t.set("m", Tree(r.m));
    t.set("n", Tree(r.n));
    t.set("k", Tree(r.k));
    t.set("flops_per_s", Tree(r.flops_per_s));
    all.push(std::move(t));
  }
  return all;
}

Tree write_value(const OpRates& x) {
  Tree t = Tree::object();
  for (const auto& [name, rate] : x) t.set(name, Tree(rate));
  return t;
}

std::string type_name(const std::vector<MeasuredProduct>&) { return "list of measured products"; }
std::string type_name(const OpRates&) { return "rates by op"; }

}  // namespace tessera
