// The part of libFuzzer that a target with its own mutator needs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

// Defined by libFuzzer; absent where seeds are replayed, which mutates nothing.
extern "C" __attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace tessera {

// Replaces the input by `text`, or mutates its bytes if `text` does not fit.
inline size_t put_mutated(std::string_view text, uint8_t* data, size_t size, size_t most) {
  if (text.empty() || text.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

}  // namespace tessera
