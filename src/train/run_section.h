// The section `run` of a run file.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

enum class Device : uint8_t { kAuto, kCpu, kCuda };
enum class ProductChoosing : uint8_t { kMeasured, kProposed };
constexpr const char* enum_names(Device) { return "auto|cpu|cuda"; }
constexpr const char* enum_names(ProductChoosing) { return "measured|proposed"; }

constexpr int64_t kMostThreads = 1024;  // of a rank

struct RunSection {
  std::string name, directory;
  int64_t seed = 1234;
  Device device = Device::kAuto;
  ProductChoosing products = ProductChoosing::kMeasured;
  bool tf32 = false;
  int64_t threads = 0;
  int64_t stop_after_steps = 0;
  std::string dump_gradients, dump_values;

  static void fields(auto& self, auto&& visit) {
    visit("name", self.name, "shown in logs; without one, the name of the run file");
    visit("directory", self.directory, "where the run writes; without one, runs/NAME");
    visit("seed", self.seed, "of the initial weights, the order of the data and dropout");
    visit("device", self.device, "auto takes a GPU if there is one");
    visit("products", self.products,
          "on a GPU, algorithms of products and of attention: measured at the first start and kept "
          "in "
          "products.txt, or the library's first proposals and our own attention, which are the "
          "same in "
          "every run");
    visit("tf32", self.tf32,
          "on a GPU, products of f32 read their operands in TF32: several times as fast, with 10 "
          "bits of mantissa");
    visit("threads", self.threads, "CPU threads a rank; 0: all cores that this process may use");
    visit("stop_after_steps", self.stop_after_steps,
          "after this many steps in all: write a checkpoint and leave; 0: go on to the end");
    visit("dump_gradients", self.dump_gradients,
          "debug: a safetensors file for the gradients of the first step");
    visit("dump_values", self.dump_values,
          "debug: a folder for digests of all values of all steps, as verify compares them");
  }
};

}  // namespace tessera
