#include "checkpoint/checksum.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

namespace tessera::checkpoint {

uint64_t checksum_of(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

uint64_t checksum_of(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

std::string checksum_text(uint64_t checksum) { return fmt::format("{:016x}", checksum); }

struct Checksum::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() {
    if (!xxh) throw std::bad_alloc();
    XXH3_64bits_reset(xxh);
  }
  ~State() { XXH3_freeState(xxh); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
};

Checksum::Checksum() : state_(std::make_unique<State>()) {}
Checksum::~Checksum() = default;
void Checksum::add(std::span<const std::byte> bytes) {
  XXH3_64bits_update(state_->xxh, bytes.data(), bytes.size());
}
uint64_t Checksum::value() const { return XXH3_64bits_digest(state_->xxh); }

}  // namespace tessera::checkpoint
