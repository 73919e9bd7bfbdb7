// Runs the rows of all texts, and combines the parts of their logits: each rank fills in the ids
// that it has, and the maximum over ranks is the number of the one that has it.
#include "eval/divided_decoder.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"
#include "eval/likelihood.h"
#include "eval/model_programs.h"

namespace tessera::eval {
namespace {

// The number of logits of a prompt that ranks combine at once, which bounds their memory.
constexpr int64_t kLogitsAtOnce = 1 << 22;

// Returns the rows per data-parallel rank: enough for the slots, but no more than are computed at
// once.
int64_t rows_per_rank(int64_t slots, int64_t data_ranks, int64_t context) {
  return std::min((slots + data_ranks - 1) / data_ranks, rows_at_once(context));
}

}  // namespace

int64_t divided_context(const checkpoint::CheckpointReader& checkpoint, int64_t tokens) {
  const int64_t most = within_first_context(model_of(checkpoint)).context;
  return row_length(std::min(tokens, most), most);
}

DividedDecoder::DividedDecoder(checkpoint::CheckpointReader& checkpoint, const ModelOptions& model,
                               const SlotOptions& options)
    : world_(*model.world),
      context_(context_in_slots(model_of(checkpoint), options)),
      vocabulary_(model_of(checkpoint).padded_vocabulary()),
      model_(checkpoint, rows_per_rank(options.slots, model.layout.data, context_), context_,
             model),
      tokens_(static_cast<size_t>(model_.rows() * context_)),
      positions_(static_cast<size_t>(std::min(options.slots, model_.rows()))) {}

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

PromptRead DividedDecoder::read(int64_t slot, std::span<const int32_t> tokens, LogitsOf which) {
  const bool each = which == LogitsOf::kEach;
  const int64_t count =
      each ? std::clamp<int64_t>(kLogitsAtOnce / vocabulary_, 1, std::ssize(tokens))
           : std::ssize(tokens);
  std::vector<Place> places;
  for (int64_t i = 0; i < count; ++i) {
    append(slot, tokens[static_cast<size_t>(i)]);
    if (each || i + 1 == count) places.push_back({slot, position(slot) - 1});
  }
  run(std::move(places));
  return {count, logits_};
}

}  // namespace tessera::eval
