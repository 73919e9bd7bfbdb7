// Decodes several texts with programs of a few batch sizes over one cache (eval/shared_cache.h).
//
// A rank's cache has a row per slot. A program reads a range of rows: one, or the first 2, 4, 8, …
// of a group. A step runs the smallest program that covers its slots. The other slots of the range
// read token 0 at the position after their text: that position of the cache is written again before
// it is read. A chunk of a prompt is read by a program of its row; a short chunk is padded in the
// same way.
//
// All ranks run the same program at the same time, since its ops may communicate: with a copy of
// the model per data-parallel rank, experts are divided among them. A step reads the same rows of
// each; a chunk is of one slot, so the other data-parallel ranks have a spare row for it.
#include "eval/batch_decoder.h"

#include <algorithm>

#include "base/error.h"
#include "eval/model_programs.h"
#include "eval/shared_cache.h"

namespace tessera::eval {
namespace {

// Up to this number of rows, the CPU's GEMMs give a row the same bits in any batch. A GPU has the
// same groups: more rows per step are of use only for models that it is too large for.
constexpr int64_t kGroup = 16;
// A GPU reads weights faster than it starts kernels, so its chunks are longer.
constexpr int64_t kGpuChunk = 128;
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

BatchDecoder::BatchDecoder(checkpoint::CheckpointReader& checkpoint, const ModelOptions& options,
                           const SlotOptions& slots)
    : model_(within_first_context(model_of(checkpoint))),
      adapters_(adapters_of(checkpoint, model_)),
      context_(context_in_slots(model_, slots)),
      slots_(slots.slots),
      world_(options.world),
      share_(share_of(options)),
      rows_((slots_ + share_.ranks - 1) / share_.ranks),
      spare_rows_(share_.ranks > 1 ? 1 : 0),
      chunk_(std::min(options.gpu ? kGpuChunk : kGroup, context_)),
      positions_(static_cast<size_t>((rows_ + spare_rows_) * share_.ranks)) {
  load_programs(checkpoint, options);
}

BatchDecoder::Share BatchDecoder::share_of(const ModelOptions& options) const {
  if (options.world == nullptr) return {};
  const compile::Layout layout =
      request(model_, compile::ProgramKind::kDecode, 1, 1, options).layout;
  const Mesh mesh = compile::mesh_of(layout, compile::head_copies(model_, layout));
  return {group_size(mesh, data_ranks()),
          group_index(mesh, data_ranks(), coordinates_of(mesh, options.world->rank()))};
}

void BatchDecoder::load_programs(checkpoint::CheckpointReader& checkpoint,
                                 const ModelOptions& options) {
  auto kernels = kernels_of(options);
  std::vector<Program> programs;
  const auto compiled = [&](int64_t rows, int64_t tokens) {
    compile::CompileRequest r =
        request(model_, compile::ProgramKind::kDecode, rows, tokens, options);
    r.cache_tokens = context_;
    return compile_for(checkpoint, std::move(r), *kernels);
  };
  // The first program defines the state that the others share.
  programs.push_back(compiled(rows_ + spare_rows_, 1));
  const auto add = [&](const Program& program, const Range& r) {
    programs.push_back(program);
    share_state(programs.back(), programs[0], r.first);
    return Range{r.first, r.rows, r.tokens, programs.size() - 1};
  };
  for (int64_t rows = 1; rows <= std::min(rows_, kGroup); rows *= 2) {
    const Program step = compiled(rows, 1);
    const int64_t stride = rows == 1 ? 1 : kGroup;  // a program per row, or per group
    for (int64_t first = 0; first + rows <= rows_; first += stride)
      steps_.push_back(add(step, {.first = first, .rows = rows}));
  }
  // The rows of a group that powers of two do not cover.
  for (int64_t first = 0; first < rows_; first += kGroup) {
    const int64_t rows = std::min(kGroup, rows_ - first);
    if ((rows & (rows - 1)) != 0)
      steps_.push_back(add(compiled(rows, 1), {.first = first, .rows = rows}));
  }
  std::ranges::stable_sort(steps_, {}, &Range::rows);
  const Program chunk = compiled(1, chunk_);
  for (int64_t row = 0; row < rows_ + spare_rows_; ++row)
    chunks_.push_back(add(chunk, {.first = row, .rows = 1, .tokens = chunk_}));
  machine_ = load(checkpoint, std::move(programs), std::move(kernels), world_);
}

bool BatchDecoder::replace_adapters(checkpoint::CheckpointReader& checkpoint) {
  return eval::replace_adapters(checkpoint, model_, adapters_, *machine_);
}

void BatchDecoder::rewind(int64_t slot, int64_t tokens) {
  CHECK(tokens >= 0 && tokens <= position(slot), "{} tokens of a text of {}", tokens,
        position(slot));
  positions_[static_cast<size_t>(slot)] = tokens;
}

int64_t BatchDecoder::group_of(int64_t slot) const { return share_.row_of(slot) / kGroup; }

// Returns the smallest program that reads the rows from `first` to `last`.
const BatchDecoder::Range& BatchDecoder::range_for(int64_t first, int64_t last) const {
  for (const Range& r : steps_)
    if (r.first <= first && last < r.first + r.rows) return r;
  CHECK(false, "no program reads rows {} to {}", first, last);
}

// Returns where the logits of a slot's token are in those of all data-parallel ranks together. In a
// chunk, a slot's rank reads its one row.
LogitsPlace BatchDecoder::place_of(const Range& r, int64_t slot, int64_t token) const {
  const int64_t row = r.tokens == 1 ? share_.row_of(slot) - r.first : 0;
  return {share_.rank_of(slot) * r.rows + row, token};
}

// Runs a program on this rank's tokens [rows, tokens], which go to the next positions of its slots.
// Does not advance the positions.
void BatchDecoder::run(const Range& r, std::span<const int32_t> tokens) {
  runtime::Executor& e = machine_->executor(r.program);
  std::ranges::copy(tokens, values<int32_t>(e, Role::kTokens).begin());
  const std::span<int32_t> positions = values<int32_t>(e, Role::kPositions);
  size_t i = 0;
  for (int64_t row = r.first; row < r.first + r.rows; ++row)
    for (int64_t t = 0; t < r.tokens; ++t)
      positions[i++] = static_cast<int32_t>(position(share_.own_slot(row)) + t);
  e.run();
}

// Makes the logits at these places those of the last read or step.
void BatchDecoder::take_logits(const Range& r, std::span<const LogitsPlace> places) {
  runtime::Executor& e = machine_->executor(r.program);
  if (world_ != nullptr)
    logits_ = gathered_.gather(logits_part(e, machine_->position()), places, vocabulary(), *world_);
  else
    logits_ = values<float>(e, Role::kLogits);
}

void BatchDecoder::step(std::span<const SlotToken> rows) {
  CHECK(!rows.empty() && group_of(rows.front().slot) == group_of(rows.back().slot),
        "a step of {} rows", rows.size());
  const Range& range = range_for(share_.row_of(rows.front().slot), share_.row_of(rows.back().slot));
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
    if (share_.rank_of(r.slot) == share_.own)
      tokens[static_cast<size_t>(share_.row_of(r.slot) - range.first)] = r.token;
  }
  // The text of a slot that is full and not part of the step is complete: its last position is not
  // read again.
  const int64_t end = (range.first + range.rows) * share_.ranks;
  for (int64_t s = range.first * share_.ranks; s < end; ++s)
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
  if (given < kWorthAChunk || room < chunk_) {
    const SlotToken one{slot, tokens[0]};
    step({&one, 1});
    return {1, logits(slot)};
  }
  const int64_t count = std::min(given, chunk_);
  check_ids(tokens.first(static_cast<size_t>(count)), model_);
  std::vector<int32_t> padded(static_cast<size_t>(chunk_));
  // Data-parallel ranks run a program together. Those that do not have the slot read a spare row.
  const bool is_own = share_.rank_of(slot) == share_.own;
  if (is_own) std::ranges::copy(tokens.first(static_cast<size_t>(count)), padded.begin());
  const Range& range = chunks_[static_cast<size_t>(is_own ? share_.row_of(slot) : rows_)];
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
