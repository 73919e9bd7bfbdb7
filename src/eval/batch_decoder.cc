// Decodes several texts with programs of a few batch sizes over one cache (eval/decode_programs.h).
//
// A step runs the smallest program that covers its slots. The other slots of the range read token 0
// at the position after their text: that position of the cache is written again before it is read.
// A short chunk of a prompt is padded in the same way.
//
// All ranks run the same program at the same time, since its ops may communicate, also between
// data-parallel ranks if these divide experts or weights. A step reads the same rows on each of
// them. A chunk is of one slot; the other data-parallel ranks read a spare row with it.
#include "eval/batch_decoder.h"

#include <algorithm>

#include "base/error.h"
#include "compile/compile.h"
#include "eval/model_programs.h"

namespace tessera::eval {
namespace {

// Fewer tokens than this are read one by one, which costs less than a padded chunk.
constexpr int64_t kWorthAChunk = 3;

// Returns the number of positions per slot. Throws Error if the model has an encoder, or if the
// options are out of range.
int64_t context_in_slots(const model::ModelConfig& model, const SlotOptions& o) {
  if (model.encoder_layers > 0)
    throw Error(
        "the model has an encoder; texts can be decoded in batches, or on several ranks, only by a "
        "decoder-only model. Use `tessera generate --prompt` on one rank for this one.");
  constexpr int64_t kMostSlots = 256;
  if (o.slots < 1 || o.slots > kMostSlots)
    throw Error("{} slots, expected 1 to {}.", o.slots, kMostSlots);
  const int64_t most = within_first_context(model).context;
  if (o.context < 0 || o.context > most)
    throw Error("a context of {} per slot, expected 1 to {}, the model's context (0: the largest).",
                o.context, most);
  return o.context > 0 ? o.context : most;
}

}  // namespace

int64_t context_for(const checkpoint::CheckpointReader& checkpoint, int64_t tokens) {
  return std::min(tokens, within_first_context(model_of(checkpoint)).context);
}

int64_t decoder_bytes(const model::ModelConfig& of, const ModelOptions& options,
                      const SlotOptions& slots) {
  const model::ModelConfig model = within_first_context(of);
  const auto kernels = kernels_of(options);
  const CacheRows cache = cache_rows(model, options, slots.slots, context_in_slots(model, slots));
  const auto compiled = [&](int64_t rows, int64_t tokens) {
    return compile::compile(decode_request(model, options, cache, rows, tokens), kernels->target());
  };
  int64_t bytes = 0;
  for (const Program& p : decode_programs(cache, compiled).programs)
    bytes = std::max(bytes, p.bytes);
  return bytes;
}

BatchDecoder::BatchDecoder(checkpoint::CheckpointReader& checkpoint, const ModelOptions& options,
                           const SlotOptions& slots)
    : model_(within_first_context(model_of(checkpoint))),
      adapters_(adapters_of(checkpoint, model_)),
      cache_(cache_rows(model_, options, slots.slots, context_in_slots(model_, slots))),
      slots_(slots.slots),
      world_(options.world),
      positions_(static_cast<size_t>(cache_.all() * cache_.share.ranks)) {
  auto kernels = kernels_of(options);
  DecodePrograms decode = decode_programs(cache_, [&](int64_t rows, int64_t tokens) {
    return compile_for(checkpoint, decode_request(model_, options, cache_, rows, tokens), *kernels);
  });
  ranges_ = std::move(decode.ranges);
  machine_ = load(checkpoint, std::move(decode.programs), std::move(kernels), world_);
}

bool BatchDecoder::replace_adapters(checkpoint::CheckpointReader& checkpoint) {
  return eval::replace_adapters(checkpoint, model_, adapters_, *machine_);
}

void BatchDecoder::rewind(int64_t slot, int64_t tokens) {
  CHECK(tokens >= 0 && tokens <= position(slot), "{} tokens of a text of {}", tokens,
        position(slot));
  positions_[static_cast<size_t>(slot)] = tokens;
}

int64_t BatchDecoder::group_of(int64_t slot) const {
  return group_of_row(cache_.share.row_of(slot));
}

// Returns where the logits of a slot's token are in the logits of all data-parallel ranks. In a
// chunk, a slot's rank reads its one row.
LogitsPlace BatchDecoder::place_of(const DecodeRange& r, int64_t slot, int64_t token) const {
  const int64_t row = r.tokens == 1 ? cache_.share.row_of(slot) - r.first : 0;
  return {cache_.share.rank_of(slot) * r.rows + row, token};
}

// Runs a program on this rank's tokens [rows, tokens], at the next positions of its slots. Does not
// advance these positions.
void BatchDecoder::run(const DecodeRange& r, std::span<const int32_t> tokens) {
  runtime::Executor& e = machine_->executor(r.program);
  std::ranges::copy(tokens, values<int32_t>(e, Role::kTokens).begin());
  const std::span<int32_t> positions = values<int32_t>(e, Role::kPositions);
  size_t i = 0;
  for (int64_t row = r.first; row < r.first + r.rows; ++row)
    for (int64_t t = 0; t < r.tokens; ++t)
      positions[i++] = static_cast<int32_t>(position(cache_.share.own_slot(row)) + t);
  e.run();
}

// Makes the logits at these places those of the last read or step.
void BatchDecoder::take_logits(const DecodeRange& r, std::span<const LogitsPlace> places) {
  runtime::Executor& e = machine_->executor(r.program);
  if (world_ != nullptr)
    logits_ = gathered_.gather(logits_part(e, machine_->position()), places, vocabulary(), *world_);
  else
    logits_ = values<float>(e, Role::kLogits);
}

void BatchDecoder::step(std::span<const SlotToken> rows) {
  CHECK(!rows.empty() && group_of(rows.front().slot) == group_of(rows.back().slot),
        "a step of {} rows", rows.size());
  const SlotShare& share = cache_.share;
  const DecodeRange& range =
      ranges_.step(share.row_of(rows.front().slot), share.row_of(rows.back().slot));
  std::vector<int32_t> tokens(static_cast<size_t>(range.rows));
  std::vector<LogitsPlace> places;
  read_.clear();
  int64_t before = -1;
  for (const SlotToken& r : rows) {
    CHECK(r.slot > before && position(r.slot) < context(), "slot {} after {}, or full", r.slot,
          before);
    before = r.slot;
    check_ids({&r.token, 1}, model_);
    places.push_back(place_of(range, r.slot, 0));
    // Ranks gather these rows only.
    read_.push_back({r.slot, world_ != nullptr ? std::ssize(read_) : places.back().row});
    if (share.rank_of(r.slot) == share.own)
      tokens[static_cast<size_t>(share.row_of(r.slot) - range.first)] = r.token;
  }
  // The text of a slot that is full and not part of the step is complete: its last position is not
  // read again.
  const int64_t end = (range.first + range.rows) * share.ranks;
  for (int64_t s = range.first * share.ranks; s < end; ++s)
    if (position(s) == context()) rewind(s, context() - 1);
  run(range, tokens);
  take_logits(range, places);
  for (const SlotToken& r : rows) ++positions_[static_cast<size_t>(r.slot)];
}

std::span<const float> BatchDecoder::logits(int64_t slot) const {
  const auto at = std::ranges::find(read_, slot, &ReadSlot::slot);
  CHECK(at != read_.end(), "the last step did not read slot {}", slot);
  const auto width = static_cast<size_t>(vocabulary());
  return logits_.subspan(static_cast<size_t>(at->row) * width, width);
}

PromptRead BatchDecoder::read(int64_t slot, std::span<const int32_t> tokens, LogitsOf which) {
  const int64_t room = context() - position(slot), given = std::ssize(tokens);
  CHECK(given > 0 && given <= room, "{} tokens in a slot with room for {}", given, room);
  if (given < kWorthAChunk || room < cache_.chunk) {
    const SlotToken one{slot, tokens[0]};
    step({&one, 1});
    return {1, logits(slot)};
  }
  const int64_t count = std::min(given, cache_.chunk);
  check_ids(tokens.first(static_cast<size_t>(count)), model_);
  std::vector<int32_t> padded(static_cast<size_t>(cache_.chunk));
  // Data-parallel ranks run a program together. Those that do not have the slot read a spare row.
  const bool is_own = cache_.share.rank_of(slot) == cache_.share.own;
  if (is_own) std::ranges::copy(tokens.first(static_cast<size_t>(count)), padded.begin());
  const DecodeRange& range =
      ranges_.chunks[static_cast<size_t>(is_own ? cache_.share.row_of(slot) : cache_.rows)];
  run(range, padded);
  std::vector<LogitsPlace> places;
  for (int64_t t = which == LogitsOf::kEach ? 0 : count - 1; t < count; ++t)
    places.push_back(place_of(range, slot, t));
  take_logits(range, places);
  read_.clear();
  positions_[static_cast<size_t>(slot)] += count;
  const int64_t rows = world_ != nullptr ? std::ssize(places) : count;
  return {count, logits_.first(static_cast<size_t>(rows * vocabulary()))};
}

int64_t BatchDecoder::cache_bytes() const {
  const Program& p = machine_->program();
  int64_t bytes = 0;
  for (const Buffer& f : p.buffers) {
    const BufferKind& k = p.kind(f.kind);
    if (!k.values.empty() && p[k.values[0]].role == Role::kCache) bytes += k.bytes;
  }
  return bytes;
}

int64_t BatchDecoder::weight_bytes() const {
  int64_t bytes = 0;
  for (const StateShard& piece : local_state(machine_->program(), machine_->position().at))
    bytes += Box{piece.begin, piece.end}.elements() * size_of(piece.dtype);
  return bytes;
}

}  // namespace tessera::eval
