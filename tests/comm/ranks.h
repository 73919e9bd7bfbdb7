// What tests under mpirun share: all ranks, and waiting.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "comm/backoff.h"
#include "comm/world.h"

namespace tessera::testing {

comm::World& ranks();  // made by main

inline std::unique_ptr<comm::Communicator> everyone() {
  std::vector<int64_t> all(static_cast<size_t>(ranks().size()));
  std::iota(all.begin(), all.end(), 0);
  return ranks().group(all);
}

inline void finish(comm::Communicator& c, comm::Ticket t) {
  comm::Backoff backoff;
  while (!c.done(t)) c.progress() ? backoff.moved() : backoff.pause();
}

// n elements on memory of their own, aligned as the arena is.
struct Tensor {
  Tensor(DType type, int64_t n) : bytes("tensor", std::max<int64_t>(64, n * size_of(type))) {
    view = {bytes.data(), type, Shape{n}};
  }
  // Another number for every (key, element), with signs and sizes that make the order of a sum
  // show.
  Tensor& draw(uint64_t key) {
    for (int64_t i = 0; i < view.elements(); ++i) {
      const uint64_t w = (key + static_cast<uint64_t>(i) * 0x9E3779B9u) * 0x9E3779B97F4A7C15u;
      const double x = static_cast<double>(static_cast<int64_t>(w)) * 0x1p-63;
      set(i, x * static_cast<double>(1 << (w >> 23) % 20));
    }
    return *this;
  }
  void set(int64_t i, double x) {
    switch (view.dtype) {
      case DType::kF32:
        view.as<float>()[i] = static_cast<float>(x);
        break;
      case DType::kBF16:
        view.as<BF16>()[i] = BF16(static_cast<float>(x));
        break;
      case DType::kF64:
        view.as<double>()[i] = x;
        break;
      case DType::kI32:
        view.as<int32_t>()[i] = static_cast<int32_t>(x);
        break;
      case DType::kI64:
        view.as<int64_t>()[i] = static_cast<int64_t>(x);
        break;
      default:
        view.as<uint8_t>()[i] = static_cast<uint8_t>(static_cast<int64_t>(x));
    }
  }
  bool operator==(const Tensor& o) const {
    return view.bytes() == o.view.bytes() &&
           std::memcmp(view.data, o.view.data, static_cast<size_t>(view.bytes())) == 0;
  }
  TensorView part(int64_t begin, int64_t count) const {
    return {view.as<std::byte>() + begin * size_of(view.dtype), view.dtype, Shape{count}};
  }

  HostBuffer bytes;
  TensorView view;
};

}  // namespace tessera::testing
