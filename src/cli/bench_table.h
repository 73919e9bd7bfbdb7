// tessera bench --kernels: the rates of measure/kernel_rates.h, against limits of the same device.
#pragma once

#include <string>

namespace tessera {

// `device` is auto, cpu or cuda. Prints a line a kernel: its share of the bandwidth of a copy, or
// (attention) of the rate of a product of that type; with `json` one object. `seconds` go to each.
int print_kernels(const std::string& device, int threads, double seconds, bool json);

}  // namespace tessera
