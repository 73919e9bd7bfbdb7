// The features of this CPU, read once and passed as a value.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

struct CpuFeatures {
  std::string model;  // "AMD EPYC …", as the system reports it
  bool avx2 = false, avx512 = false, avx512_bf16 = false, amx_bf16 = false;
  int cores = 1;         // cores that this process may use
  int online_cores = 1;  // cores of the machine
  int64_t l2_bytes = 0, l3_bytes = 0, memory_bytes = 0;
  bool bf16_products() const { return avx512_bf16 || amx_bf16; }
};

CpuFeatures read_cpu_features();

}  // namespace tessera
