// A machine as data: what a cluster file (configs/clusters/*.yaml) says, and what `tessera bench`
// writes for the machine at hand. One form, one reader.
//
// Units: seconds, bytes, bytes a second in one direction, floating point operations a second (two a
// multiply-add). A share is a part of 1. Where a key has no default it must be given.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "base/config.h"
#include "base/file.h"
#include "ir/program.h"

namespace tessera::plan {

constexpr double kNotGiven = std::numeric_limits<double>::quiet_NaN();

// A measured product C [m, n] = sum over k, of operands of `type` (f32 | bf16).
struct MeasuredProduct {
  std::string type, kind;  // kind: forward | input gradient | weight gradient
  int64_t m = 0, n = 0, k = 0;
  double flops_per_s = 0;
};

// Measured rates of ops by name, or by name and type of what they read ("norm": 9e9, "norm.bf16"):
// bytes (Cost::moved_bytes) or operations (Flops::hardware) per second.
struct OpRates : std::map<std::string, double, std::less<>> {};

enum class DeviceKind : uint8_t { kGpu, kCpu, kAccelerator };
constexpr const char* enum_names(DeviceKind) { return "gpu|cpu|accelerator"; }

struct DeviceFigures {
  std::string name;
  DeviceKind kind = DeviceKind::kGpu;
  double memory_bytes = kNotGiven, memory_bytes_per_s = kNotGiven, memory_efficiency = kNotGiven;
  double bf16_flops_per_s = kNotGiven, fp32_flops_per_s = kNotGiven;
  double fp8_flops_per_s = 0;
  double matrix_efficiency = kNotGiven, attention_efficiency = 0.6;
  int64_t processors = 0;
  double kernel_s = 0;
  double outside_bytes = 0, communication_bytes = 0, communicator_bytes = 0, headroom = 0;
  double host_bytes_per_s = 0, host_memory_bytes = 0;
  std::vector<MeasuredProduct> products;
  OpRates op_bytes_per_s, op_flops_per_s;

  static void fields(auto& self, auto&& visit) {
    visit("name", self.name, "the name in reports");
    visit("kind", self.kind, "gpu | cpu | accelerator");
    visit("memory_bytes", self.memory_bytes, "memory of one device, as its driver reports it");
    visit("memory_bytes_per_s", self.memory_bytes_per_s, "its bandwidth by the specification");
    visit("memory_efficiency", self.memory_efficiency, "the share of it that long sweeps reach");
    visit("bf16_flops_per_s", self.bf16_flops_per_s, "matrix rate by the specification, 16 bits");
    visit("fp32_flops_per_s", self.fp32_flops_per_s, "the same for operands of 32 bits");
    visit("fp8_flops_per_s", self.fp8_flops_per_s, "the same, 8 bits; 0: it multiplies none");
    visit("matrix_efficiency", self.matrix_efficiency,
          "the share of it that full tiles on all processors reach");
    visit("attention_efficiency", self.attention_efficiency,
          "fused attention's share of the rate of full tiles");
    visit("processors", self.processors,
          "units that work on one tile each; 0: products have no tiles");
    visit("kernel_s", self.kernel_s, "shortest time of a kernel on the device");
    visit("outside_bytes", self.outside_bytes,
          "memory that the driver and libraries take beside the arena");
    visit("communication_bytes", self.communication_bytes,
          "the same of the communication library, where there are several ranks");
    visit("communicator_bytes", self.communicator_bytes,
          "the same of each communicator: its buffers and the staging memory of its sums");
    visit("headroom", self.headroom,
          "the share of memory_bytes that a plan leaves free, for what libraries allocate later");
    visit("host_bytes_per_s", self.host_bytes_per_s,
          "what copies between it and pinned memory of its host reach in one direction; 0: not "
          "known");
    visit("host_memory_bytes", self.host_memory_bytes,
          "its share of the memory of its host; 0: not known");
    visit("products", self.products, "measured products; they replace the model of tiles");
    visit("op_bytes_per_s", self.op_bytes_per_s, "measured rates of ops that sweep, by name");
    visit("op_flops_per_s", self.op_flops_per_s, "the same of attention and of the fused head");
  }
};

// Links within a node. A package is a group of devices with faster links (MI250X: two).
struct NodeFigures {
  int64_t devices = 0, package_devices = 1;
  double bytes_per_s = kNotGiven, package_bytes_per_s = 0, efficiency = kNotGiven;
  double latency_s = kNotGiven;
  bool by_processor = false;

  static void fields(auto& self, auto&& visit) {
    visit("devices", self.devices, "devices of a node");
    visit("package_devices", self.package_devices, "neighbours that share a package");
    visit("bytes_per_s", self.bytes_per_s, "what a device sends to others of its node");
    visit("package_bytes_per_s", self.package_bytes_per_s, "the same within a package");
    visit("efficiency", self.efficiency, "the share of these rates that collectives reach");
    visit("latency_s", self.latency_s, "of one hop");
    visit("by_processor", self.by_processor,
          "what computes moves messages too: neither runs beside the other");
  }
};

struct NetworkFigures {
  double bytes_per_s = kNotGiven, efficiency = kNotGiven, latency_s = kNotGiven;
  int64_t adapters = 1;

  static void fields(auto& self, auto&& visit) {
    visit("bytes_per_s", self.bytes_per_s, "what a node sends: injection of all its adapters");
    visit("efficiency", self.efficiency, "the share of it that collectives reach");
    visit("latency_s", self.latency_s, "of one hop between nodes");
    visit("adapters", self.adapters, "network adapters of a node; a device uses one");
  }
};

struct PriceFigures {
  double usd_per_device_hour = 0;

  static void fields(auto& self, auto&& visit) {
    visit("usd_per_device_hour", self.usd_per_device_hour, "0: not known");
  }
};

struct Hardware {
  std::string name, version;
  DeviceFigures device;
  NodeFigures node;
  NetworkFigures network;
  PriceFigures price;

  static void fields(auto& self, auto&& visit) {
    visit("name", self.name, "of the machine");
    visit("version", self.version, "of the program that measured it, if one did");
    visit("device", self.device, "");
    visit("node", self.node, "");
    visit("network", self.network, "");
    visit("price", self.price, "");
  }
};

// Throws Error("clusters/x.yaml:4:9: device.memory_bytes = -1: expected more than 0") for a figure
// that is missing, negative or (for a share) above 1, and for unknown keys. `overrides` are
// "device.matrix_efficiency=0.7".
Hardware load_hardware(const Path& path, std::span<const std::string> overrides = {});
Hardware read_hardware(const Tree& tree, const std::string& source,
                       std::span<const std::string> overrides = {});

// Throws Error for a name that is no op's, with the nearest that is.
void check_op_name(const std::string& name, const Tree& tree, const Place& place);

// For base/config.h.
void read_value(const Tree& tree, std::vector<MeasuredProduct>& value, const Place& place);
void read_value(const Tree& tree, OpRates& value, const Place& place);
Tree write_value(const std::vector<MeasuredProduct>& x);
Tree write_value(const OpRates& x);
std::string type_name(const std::vector<MeasuredProduct>&);
std::string type_name(const OpRates&);

// Returns the bytes of a device that a plan may use: memory_bytes without the headroom.
double usable_bytes(const DeviceFigures& d);

// Returns the memory outside of the arena of a rank that makes that many communicators.
int64_t outside_bytes(const DeviceFigures& d, int64_t communicators);

struct MemoryNeed {
  int64_t arena = 0, host = 0, communicators = 0;
};
MemoryNeed memory_need(const Program& program);
// Returns true if the arena of a program fits the device, together with what is outside of it, and,
// with layout.offload, the arena of the host fits the device's share. A processor has one memory
// for both.
bool has_room(const DeviceFigures& d, const MemoryNeed& need);

}  // namespace tessera::plan
