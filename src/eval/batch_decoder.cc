// Decodes several texts with programs of a few batch sizes over one cache (eval/shared_cache.h).
//
// A program reads a range of slots: one, or the first 2, 4, 8, … of a group. A step runs the
// smallest program that covers its slots. The other slots of the range read token 0 at the position
// after their text: that position of the cache is written again before it is read. A chunk of a
// prompt is read by a program of its slot; a short chunk is padded in the same way.
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

}  // namespace

BatchDecoder::BatchDecoder(checkpoint::CheckpointReader& checkpoint, const ModelOptions& options,
                           const SlotOptions& slots)
    : model_(within_first_context(model_of(checkpoint))),
      context_(context_in_slots(model_, slots)),
      chunk_(std::min(options.gpu ? kGpuChunk : kGroup, context_)),
      positions_(static_cast<size_t>(slots.slots)) {
  auto kernels = kernels_of(options);
  std::vector<Program> programs;
  const auto compiled = [&](int64_t rows, int64_t tokens) {
    compile::CompileRequest r =
        request(model_, compile::ProgramKind::kDecode, rows, tokens, options);
    r.cache_tokens = context_;
    return compile_for(checkpoint, std::move(r), *kernels);
  };
  // The first program defines the state that the others share.
  programs.push_back(compiled(slots.slots, 1));
  const auto add = [&](const Program& program, const Range& r) {
    programs.push_back(program);
    share_state(programs.back(), programs[0], r.first);
    return Range{r.first, r.rows, r.tokens, programs.size() - 1};
  };
  for (int64_t rows = 1; rows <= std::min(slots.slots, kGroup); rows *= 2) {
    const Program step = compiled(rows, 1);
    const int64_t stride = rows == 1 ? 1 : kGroup;  // a program per slot, or per group
    for (int64_t first = 0; first + rows <= slots.slots; first += stride)
      steps_.push_back(add(step, {.first = first, .rows = rows}));
  }
  // The slots of a group that powers of two do not cover.
  for (int64_t first = 0; first < slots.slots; first += kGroup) {
    const int64_t rows = std::min(kGroup, slots.slots - first);
    if ((rows & (rows - 1)) != 0)
      steps_.push_back(add(compiled(rows, 1), {.first = first, .rows = rows}));
  }
  std::ranges::stable_sort(steps_, {}, &Range::rows);
  const Program chunk = compiled(1, chunk_);
  for (int64_t slot = 0; slot < slots.slots; ++slot)
    chunks_.push_back(add(chunk, {.first = slot, .rows = 1, .tokens = chunk_}));
  machine_ = load(checkpoint, std::move(programs), std::move(kernels));
}

void BatchDecoder::rewind(int64_t slot, int64_t tokens) {
  CHECK(tokens >= 0 && tokens <= position(slot), "{} tokens of a text of {}", tokens,
        position(slot));
  positions_[static_cast<size_t>(slot)] = tokens;
}

int64_t BatchDecoder::group_of(int64_t slot) const { return slot / kGroup; }

// Returns the smallest program that reads the slots from `first` to `last`.
const BatchDecoder::Range& BatchDecoder::range_for(int64_t first, int64_t last) const {
  for (const Range& r : steps_)
    if (r.first <= first && last < r.first + r.rows) return r;
  CHECK(false, "no program reads slots {} to {}", first, last);
}

// Runs a program on tokens [rows, tokens], which go to the next positions of the slots. Does not
// advance the positions.
void BatchDecoder::run(const Range& r, std::span<const int32_t> tokens) {
  runtime::Executor& e = machine_->executor(r.program);
  std::ranges::copy(tokens, values<int32_t>(e, Role::kTokens).begin());
  const std::span<int32_t> positions = values<int32_t>(e, Role::kPositions);
  size_t i = 0;
  for (int64_t slot = r.first; slot < r.first + r.rows; ++slot)
    for (int64_t t = 0; t < r.tokens; ++t)
      positions[i++] = static_cast<int32_t>(position(slot) + t);
  e.run();
  logits_ = values<float>(e, Role::kLogits);
  read_from_ = r.first;
}

void BatchDecoder::step(std::span<const SlotToken> rows) {
  CHECK(!rows.empty() && group_of(rows.front().slot) == group_of(rows.back().slot),
        "a step of {} rows", rows.size());
  const Range& range = range_for(rows.front().slot, rows.back().slot);
  std::vector<int32_t> tokens(static_cast<size_t>(range.rows));
  int64_t before = -1;
  for (const SlotToken& r : rows) {
    CHECK(r.slot > before && position(r.slot) < context(), "slot {} after {}, or full", r.slot,
          before);
    before = r.slot;
    tokens[static_cast<size_t>(r.slot - range.first)] = r.token;
  }
  check_ids(tokens, model_);
  // The text of a slot that is full and not part of the step is complete: its last position is not
  // read again.
  for (int64_t s = range.first; s < range.first + range.rows; ++s)
    if (position(s) == context()) rewind(s, context() - 1);
  run(range, tokens);
  for (const SlotToken& r : rows) ++positions_[static_cast<size_t>(r.slot)];
}

std::span<const float> BatchDecoder::logits(int64_t slot) const {
  const auto width = static_cast<size_t>(vocabulary());
  return logits_.subspan(static_cast<size_t>(slot - read_from_) * width, width);
}

PromptRead BatchDecoder::read(int64_t slot, std::span<const int32_t> tokens, LogitsOf) {
  const int64_t room = context() - position(slot), given = std::ssize(tokens);
  CHECK(given > 0 && given <= room, "{} tokens in a slot with room for {}", given, room);
  if (given < kWorthAChunk || room < chunk_) {
    const SlotToken one{slot, tokens[0]};
    step({&one, 1});
    return {1, logits(slot)};
  }
  const int64_t count = std::min(given, chunk_);
  std::vector<int32_t> padded(tokens.begin(), tokens.begin() + count);
  check_ids(padded, model_);
  padded.resize(static_cast<size_t>(chunk_));
  run(chunks_[static_cast<size_t>(slot)], padded);
  positions_[static_cast<size_t>(slot)] += count;
  return {count, logits_.first(static_cast<size_t>(count * vocabulary()))};
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
  for (const StateShard& piece : local_state(machine_->program()))
    bytes += Box{piece.begin, piece.end}.elements() * size_of(piece.dtype);
  return bytes;
}

}  // namespace tessera::eval
