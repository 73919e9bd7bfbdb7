// XXH3-64 checksums (Collet 2019), of a whole buffer or incrementally.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tessera::checkpoint {

uint64_t checksum_of(std::span<const std::byte> bytes);
uint64_t checksum_of(std::string_view text);

std::string checksum_text(uint64_t checksum);  // 16 hexadecimal digits

// An incremental checksum: value() is that of all bytes added so far.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  void add(std::span<const std::byte> bytes);
  uint64_t value() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tessera::checkpoint
