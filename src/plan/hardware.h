// A machine as data: the contents of a cluster file (configs/clusters/*.yaml). `tessera bench`
// writes a file of the same format for this machine.
//
// Units: seconds, bytes, bytes per second in one direction, floating-point operations per second
// (two per multiply-add). A share is in [0, 1]. A key without a default is required.
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

// A measured GEMM: C [m, n] = A [m, k] B [k, n] with operands of `type` (f32 | bf16).
struct MeasuredProduct {
  std::string type, kind;  // kind: forward | input gradient | weight gradient
  int64_t m = 0, n = 0, k = 0;
  double flops_per_s = 0;
};

// Measured rates of ops, by op name or by op name and operand type ("norm", "norm.bf16"): bytes
// (Cost::moved_bytes) or operations (Flops::hardware) per second.
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
    visit("name", self.name, "name of the device in reports");
    visit("kind", self.kind, "gpu | cpu | accelerator");
    visit("memory_bytes", self.memory_bytes, "memory of one device, as its driver reports it");
    visit("memory_bytes_per_s", self.memory_bytes_per_s, "specified memory bandwidth");
    visit("memory_efficiency", self.memory_efficiency,
          "share of the specified bandwidth that long reads and writes reach");
    visit("bf16_flops_per_s", self.bf16_flops_per_s, "specified matrix rate, 16-bit operands");
    visit("fp32_flops_per_s", self.fp32_flops_per_s, "specified matrix rate, 32-bit operands");
    visit("fp8_flops_per_s", self.fp8_flops_per_s,
          "specified matrix rate, 8-bit operands; 0: no FP8 support");
    visit("matrix_efficiency", self.matrix_efficiency,
          "share of the specified matrix rate that full tiles on all processors reach");
    visit("attention_efficiency", self.attention_efficiency,
          "rate of fused attention as a share of the rate of full tiles");
    visit("processors", self.processors,
          "number of units that compute one tile each; 0: GEMMs are not tiled");
    visit("kernel_s", self.kernel_s, "minimum time of a kernel on the device");
    visit("outside_bytes", self.outside_bytes,
          "memory of the driver and libraries, outside the arena");
    visit("communication_bytes", self.communication_bytes,
          "memory of the communication library, if there are several ranks");
    visit("communicator_bytes", self.communicator_bytes,
          "memory per communicator: its buffers and the staging memory of its reductions");
    visit("headroom", self.headroom,
          "share of memory_bytes that a plan leaves free, for later allocations by libraries");
    visit("host_bytes_per_s", self.host_bytes_per_s,
          "rate of copies to or from pinned host memory, in one direction; 0: not known");
    visit("host_memory_bytes", self.host_memory_bytes, "host memory per device; 0: not known");
    visit("products", self.products, "measured GEMMs, which replace the model of tiles");
    visit("op_bytes_per_s", self.op_bytes_per_s, "measured rates of memory-bound ops, by name");
    visit("op_flops_per_s", self.op_flops_per_s,
          "measured rates of attention, the fused head and experts, by name");
  }
};

// Links within a node. A package is a group of devices with faster links (MI250X: two).
struct NodeFigures {
  int64_t devices = 0, package_devices = 1;
  double bytes_per_s = kNotGiven, package_bytes_per_s = 0, efficiency = kNotGiven;
  double latency_s = kNotGiven;
  bool by_processor = false;

  static void fields(auto& self, auto&& visit) {
    visit("devices", self.devices, "devices per node");
    visit("package_devices", self.package_devices, "devices per package");
    visit("bytes_per_s", self.bytes_per_s, "send rate of a device to others in its node");
    visit("package_bytes_per_s", self.package_bytes_per_s,
          "send rate of a device to others in its package");
    visit("efficiency", self.efficiency, "share of these rates that collectives reach");
    visit("latency_s", self.latency_s, "latency of one hop");
    visit("by_processor", self.by_processor,
          "the processor that computes also transfers messages, so the two never overlap");
  }
};

struct NetworkFigures {
  double bytes_per_s = kNotGiven, efficiency = kNotGiven, latency_s = kNotGiven;
  int64_t adapters = 1;

  static void fields(auto& self, auto&& visit) {
    visit("bytes_per_s", self.bytes_per_s, "injection rate of a node, all adapters together");
    visit("efficiency", self.efficiency, "share of that rate that collectives reach");
    visit("latency_s", self.latency_s, "latency of one hop between nodes");
    visit("adapters", self.adapters, "network adapters per node; a device uses one");
  }
};

struct PriceFigures {
  double usd_per_device_hour = 0;

  static void fields(auto& self, auto&& visit) {
    visit("usd_per_device_hour", self.usd_per_device_hour, "price of a device; 0: not known");
  }
};

struct Hardware {
  std::string name, version;
  DeviceFigures device;
  NodeFigures node;
  NetworkFigures network;
  PriceFigures price;

  static void fields(auto& self, auto&& visit) {
    visit("name", self.name, "name of the machine");
    visit("version", self.version, "version of the program that measured it, if any");
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

// Throws Error if no op has that name; the message suggests the nearest name.
void check_op_name(const std::string& name, const Tree& tree, const SourceLocation& place);

// Overloads that base/config.h uses for the types above.
void read_value(const Tree& tree, std::vector<MeasuredProduct>& value, const SourceLocation& place);
void read_value(const Tree& tree, OpRates& value, const SourceLocation& place);
Tree write_value(const std::vector<MeasuredProduct>& x);
Tree write_value(const OpRates& x);
std::string type_name(const std::vector<MeasuredProduct>&);
std::string type_name(const OpRates&);

// Returns the bytes of a device that a plan may use: memory_bytes without the headroom.
double usable_bytes(const DeviceFigures& d);

// Returns the bytes outside the arena of a rank that creates this number of communicators.
int64_t outside_bytes(const DeviceFigures& d, int64_t communicators);

struct MemoryNeed {
  int64_t arena = 0, host = 0, communicators = 0;
};
MemoryNeed memory_need(const Program& program);
// Returns true if the arena and the memory outside it fit on the device, and, with layout.offload,
// the host arena fits in the device's share of host memory. A CPU has one memory for both.
bool has_room(const DeviceFigures& d, const MemoryNeed& need);

}  // namespace tessera::plan
