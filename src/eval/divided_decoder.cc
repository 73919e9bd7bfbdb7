// Runs the rows of all texts, and combines the parts of their logits: each rank fills in the ids
// that it has, and the maximum over ranks is the number of the one that has it.
#include "eval/divided_decoder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "eval/model_programs.h"

namespace tessera::eval {
namespace {

// The numbers that are combined at once, which bounds their memory to 12 times as many bytes.
constexpr int64_t kNumbersAtOnce = 1 << 22;

int64_t rows_per_data_rank(int64_t slots, int64_t ranks) { return (slots + ranks - 1) / ranks; }

}  // namespace

DividedDecoder::DividedDecoder(checkpoint::CheckpointReader& checkpoint, const ModelOptions& model,
                               const SlotOptions& options)
    : world_(*model.world),
      context_(context_in_slots(model_of(checkpoint), options)),
      vocabulary_(model_of(checkpoint).padded_vocabulary()),
      model_(checkpoint, rows_per_data_rank(options.slots, model.layout.data), context_, model),
      tokens_(static_cast<size_t>(model_.rows() * context_)),
      positions_(static_cast<size_t>(options.slots)) {}

void DividedDecoder::rewind(int64_t slot, int64_t tokens) {
  CHECK(tokens >= 0 && tokens <= position(slot), "{} of {} tokens", tokens, position(slot));
  positions_[static_cast<size_t>(slot)] = tokens;
}

void DividedDecoder::append(int64_t slot, int32_t token) {
  int64_t& position = positions_[static_cast<size_t>(slot)];
  CHECK(position < context_, "slot {} is full", slot);
  tokens_[static_cast<size_t>(slot * context_ + position++)] = token;
}

void DividedDecoder::run(std::vector<Place> places) {
  places_ = std::move(places);
  model_.run(tokens_);
  const auto width = static_cast<size_t>(vocabulary_);
  gathered_.assign(places_.size() * width, -std::numeric_limits<double>::infinity());
  const LogitsPart part = model_.part();
  for (size_t i = 0; i < places_.size(); ++i)
    std::ranges::copy(part.at(places_[i].slot, places_[i].position),
                      gathered_.begin() + static_cast<int64_t>(i * width) + part.first_id);
  world_.all_reduce(gathered_, comm::Reduction::kMax);
  logits_.assign(gathered_.begin(), gathered_.end());
}

void DividedDecoder::step(std::span<const SlotToken> rows) {
  std::vector<Place> places;
  for (const SlotToken& r : rows) {
    append(r.slot, r.token);
    places.push_back({r.slot, position(r.slot) - 1});
  }
  run(std::move(places));
}

std::span<const float> DividedDecoder::logits(int64_t slot) const {
  const auto at = std::ranges::find(places_, slot, &Place::slot);
  CHECK(at != places_.end(), "the last step did not read slot {}", slot);
  return std::span(logits_).subspan(static_cast<size_t>((at - places_.begin()) * vocabulary_),
                                    static_cast<size_t>(vocabulary_));
}

std::span<const float> DividedDecoder::read(int64_t slot, std::span<const int32_t> tokens) {
  const int64_t count = std::clamp<int64_t>(kNumbersAtOnce / vocabulary_, 1, std::ssize(tokens));
  std::vector<Place> places;
  for (int64_t i = 0; i < count; ++i) {
    append(slot, tokens[static_cast<size_t>(i)]);
    places.push_back({slot, position(slot) - 1});
  }
  run(std::move(places));
  return logits_;
}

}  // namespace tessera::eval
