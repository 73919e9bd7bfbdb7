// Reads and checks machine files. Every figure has a plausible range, so that a value in the wrong
// unit (GB instead of bytes, microseconds instead of seconds) is rejected instead of giving a
// prediction that is wrong by a factor of a thousand.
#include "plan/hardware.h"

#include <fmt/ranges.h>

#include <cmath>

#include "base/real.h"
#include "ir/communicators.h"
#include "ir/rule.h"

namespace tessera::plan {
namespace {

constexpr double kAny = std::numeric_limits<double>::infinity();

// A required or optional key with its plausible range. A value outside [least, most] is rejected:
// it was probably given in another unit.
struct Bound {
  const char* path;
  bool zero;   // may be 0
  bool share;  // at most 1
  double least = 0, most = kAny;
  const char* example = "";  // in the expected unit
};
constexpr double kBytes = 1e6, kMostBytes = 1e15, kRate = 1e3, kFlops = 1e6, kSeconds = 1;
constexpr const char *kGibibytes = "bytes: 80 GiB are 85899345920",
                     *kGigabytes = "bytes per second: 300 GB/s are 300e9",
                     *kTeraflops = "operations per second: 312 TFLOP/s is 312e12",
                     *kMicroseconds = "seconds: 4 us are 4e-6";
constexpr Bound kRequired[] = {
    {"device.memory_bytes", false, false, kBytes, kMostBytes, kGibibytes},
    {"device.memory_bytes_per_s", false, false, kRate, kAny, kGigabytes},
    {"device.memory_efficiency", false, true},
    {"device.bf16_flops_per_s", false, false, kFlops, kAny, kTeraflops},
    {"device.fp32_flops_per_s", false, false, kFlops, kAny, kTeraflops},
    {"device.matrix_efficiency", false, true},
    {"node.devices", false, false},
    {"node.bytes_per_s", false, false, kRate, kAny, kGigabytes},
    {"node.efficiency", false, true},
    {"node.latency_s", true, false, 0, kSeconds, kMicroseconds},
    {"network.bytes_per_s", false, false, kRate, kAny, kGigabytes},
    {"network.efficiency", false, true},
    {"network.latency_s", true, false, 0, kSeconds, kMicroseconds}};
constexpr Bound kOptional[] = {
    {"device.attention_efficiency", false, true},
    {"device.processors", true, false},
    {"device.fp8_flops_per_s", true, false, kFlops, kAny, kTeraflops},
    {"device.kernel_s", true, false, 0, kSeconds, kMicroseconds},
    {"device.outside_bytes", true, false, kBytes, kMostBytes, kGibibytes},
    {"device.communication_bytes", true, false, kBytes, kMostBytes, kGibibytes},
    {"device.communicator_bytes", true, false, kBytes, kMostBytes / 1e3, kGibibytes},
    {"device.headroom", true, true},
    {"device.host_bytes_per_s", true, false, kRate, kAny, kGigabytes},
    {"device.host_memory_bytes", true, false, kBytes, kMostBytes, kGibibytes},
    {"node.package_devices", false, false},
    {"node.package_bytes_per_s", true, false, kRate, kAny, kGigabytes},
    {"network.adapters", false, false},
    {"price.usd_per_device_hour", true, false}};

double number_in(const Field& f) {
  const Tree t = f.write();
  if (const auto* i = std::get_if<int64_t>(&t.value)) return static_cast<double>(*i);
  const auto* d = std::get_if<double>(&t.value);
  return d != nullptr ? *d : kNotGiven;
}

// Throws Error if a figure is missing, not a usable number, a share above 1, or outside its
// plausible range; checks in this order.
void check_figure(std::span<const Field> fields, const Bound& b, bool required,
                  const std::string& source, const SourceLocations& places) {
  const Field& f = find_field(fields, b.path, "");
  const auto place = places.find(b.path);
  if (place == places.end()) {
    if (required)
      throw Error("{}: {} is missing: {}. Add it, with its source in a comment.", source, b.path,
                  f.help);
    return;
  }
  const double x = number_in(f);
  if (!(x >= 0) || std::isinf(x) || (x == 0 && !b.zero))
    throw Error("{}: {} = {}: expected {}.", place->second, b.path, x,
                b.zero ? "0 or more" : "more than 0");
  if (b.share && x > 1)
    throw Error("{}: {} = {}: expected a share of the specified figure, at most 1.", place->second,
                b.path, x);
  if (x > 0 && (x < b.least || x > b.most))
    throw Error("{}: {} = {} is implausible; expected {}.", place->second, b.path, x, b.example);
}

std::string place_of(const Tree& t, const SourceLocation& place) {
  return t.line == 0 ? fmt::format("{}: {}", place.at, place.path)
                     : fmt::format("{}: {} (line {})", place.at, place.path, t.line);
}

double positive(const Tree& t, const SourceLocation& place) {
  double x = 0;
  tessera::read_value(t, x, place);
  if (!(x > 0) || std::isinf(x))
    throw Error("{} = {}: expected more than 0.", place_of(t, place), x);
  return x;
}

void check_known(const std::string& name, std::span<const char* const> known, const char* what,
                 const Tree& t, const SourceLocation& place) {
  for (const char* k : known)
    if (name == k) return;
  throw Error("{}: '{}' is not a {} of a measured GEMM; expected {}.", place_of(t, place), name,
              what, fmt::join(known, " | "));
}

// Checks figures that only make sense together.
void check_together(const Hardware& h, const std::string& source) {
  const NodeFigures& n = h.node;
  if (n.package_devices > 1 && n.package_bytes_per_s == 0)
    throw Error(
        "{}: node.package_devices = {}, but node.package_bytes_per_s is missing: {}. Add it.",
        source, n.package_devices, "the rate of a device to others in its package");
  if (n.devices % n.package_devices != 0)
    throw Error("{}: node.package_devices = {} does not divide node.devices = {}.", source,
                n.package_devices, n.devices);
  if (const DeviceFigures& d = h.device; d.outside_bytes >= usable_bytes(d))
    throw Error(
        "{}: device.outside_bytes = {:.0f} with device.headroom = {} leaves nothing of "
        "device.memory_bytes = {:.0f}. Lower one of them.",
        source, d.outside_bytes, d.headroom, d.memory_bytes);
}

}  // namespace

// Overrides are read after the file, and all figures are checked last, so an override may replace a
// figure of the file that would be rejected.
Hardware read_hardware(const Tree& tree, const std::string& source,
                       std::span<const std::string> overrides) {
  Hardware h;
  const std::vector<Field> fields = fields_of(h);
  SourceLocations places;
  read_fields(fields, tree, source, places);
  for (const std::string& o : overrides) read_override(fields, parse_override(o), places);
  for (const Bound& b : kRequired) check_figure(fields, b, true, source, places);
  for (const Bound& b : kOptional) check_figure(fields, b, false, source, places);
  check_together(h, source);
  return h;
}

Hardware load_hardware(const Path& path, std::span<const std::string> overrides) {
  return read_hardware(parse_yaml(read_file(path), path.string()), path.string(), overrides);
}

void read_value(const Tree& tree, std::vector<MeasuredProduct>& value,
                const SourceLocation& place) {
  constexpr const char* kTypes[] = {"f32", "bf16"};
  constexpr const char* kKinds[] = {"forward", "input gradient", "weight gradient"};
  value.clear();
  if (tree.as_list() == nullptr)
    wrong_value(tree, "a list of {type, kind, m, n, k, flops_per_s}", place);
  for (const Tree& t : *tree.as_list()) {
    MeasuredProduct r;
    const auto member = [&](const char* name) -> const Tree& {
      const Tree* found = t.find(name);
      if (found == nullptr)
        throw Error("{}: '{}' is missing from a measured GEMM. Add it.", place_of(t, place), name);
      return *found;
    };
    tessera::read_value(member("type"), r.type, place);
    tessera::read_value(member("kind"), r.kind, place);
    check_known(r.type, kTypes, "type", member("type"), place);
    check_known(r.kind, kKinds, "kind", member("kind"), place);
    r.m = static_cast<int64_t>(positive(member("m"), place));
    r.n = static_cast<int64_t>(positive(member("n"), place));
    r.k = static_cast<int64_t>(positive(member("k"), place));
    r.flops_per_s = positive(member("flops_per_s"), place);
    value.push_back(std::move(r));
  }
}

// Keys are op names, optionally with a dtype: "norm" or "norm.bf16".
void read_value(const Tree& tree, OpRates& value, const SourceLocation& place) {
  value.clear();
  if (tree.as_members() == nullptr) wrong_value(tree, "rates by the name of the op", place);
  for (const auto& [name, rate] : *tree.as_members()) {
    check_op_name(name.substr(0, name.find('.')), rate, place);  // "norm.bf16"
    value[name] = positive(rate, place);
  }
}

void check_op_name(const std::string& name, const Tree& tree, const SourceLocation& place) {
  if (op_kind_named(name)) return;
  std::vector<std::string> names;
  for (const OpKind k : Enumerators<OpKind>()) names.emplace_back(name_of(k));
  const std::string guess = nearest(name, names);
  throw Error(
      "{}: unknown op '{}'.{}", place_of(tree, place), name,
      guess.empty() ? " src/ir/ops lists the ops." : fmt::format(" Did you mean '{}'?", guess));
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

std::string type_name(const std::vector<MeasuredProduct>&) { return "list of measured GEMMs"; }
std::string type_name(const OpRates&) { return "rates by op"; }

double usable_bytes(const DeviceFigures& d) { return d.memory_bytes * (1 - d.headroom); }

// Memory outside the arena has a fixed part (context, library code). If the rank communicates, the
// communication library adds another fixed part and one part per communicator.
int64_t outside_bytes(const DeviceFigures& d, int64_t communicators) {
  if (communicators == 0) return std::llround(d.outside_bytes);
  return std::llround(d.outside_bytes + d.communication_bytes +
                      real_product(communicators, d.communicator_bytes));
}

MemoryNeed memory_need(const Program& program) {
  return {program.bytes, program.host_bytes, communicator_count(program)};
}

// On a CPU, device and host share one memory; on a GPU, each has its own limit (the host's may be
// unknown, 0).
bool has_room(const DeviceFigures& d, const MemoryNeed& need) {
  const auto host = static_cast<double>(need.host);
  const bool one_memory = d.kind == DeviceKind::kCpu;
  const auto here = static_cast<double>(need.arena + outside_bytes(d, need.communicators));
  return here + (one_memory ? host : 0) <= usable_bytes(d) &&
         (one_memory || d.host_memory_bytes <= 0 || host <= d.host_memory_bytes);
}

}  // namespace tessera::plan
