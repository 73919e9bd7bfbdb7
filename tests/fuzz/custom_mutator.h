// What a target with a mutator of its own needs of libFuzzer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

// Defined by libFuzzer; absent where seeds are replayed, which mutates nothing.
extern "C" __attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace tessera {

// Puts `text` in place of the input, or mutates its bytes where there is no room for it.
inline size_t put_mutated(std::string_view text, uint8_t* data, size_t size, size_t most) {
  if (text.empty() || text.size() > most) return LLVMFuzzerMutate(data, size, most);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

}  // namespace tessera
