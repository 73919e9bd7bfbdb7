// A program per number of rows and position in the cache: those of one number of rows differ only
// in the offset of the cache.
#include "eval/decode_programs.h"

#include <algorithm>

#include "base/error.h"
#include "compile/compile.h"
#include "eval/model_programs.h"
#include "eval/shared_cache.h"

namespace tessera::eval {
namespace {

// Up to this number of rows, the CPU's GEMMs give a row the same bits in any batch. A GPU has the
// same limit: more rows per step would help only models that are too small to keep it busy.
constexpr int64_t kGroup = 16;
// A GPU reads weights faster than it starts kernels, so its chunks are longer.
constexpr int64_t kGpuChunk = 128;

SlotShare share_of(const model::ModelConfig& model, const compile::Layout& layout,
                   const ModelOptions& options) {
  if (options.world == nullptr) return {};
  const Mesh mesh = compile::mesh_of(layout, compile::head_copies(model, layout));
  return {group_size(mesh, data_ranks()),
          group_index(mesh, data_ranks(), coordinates_of(mesh, options.world->rank()))};
}

// Returns the layers of each stage, balanced by the costs of a decode step: steps are more frequent
// than prompt chunks.
std::vector<int64_t> stages_of(const compile::CompileRequest& step) {
  if (step.layout.pipeline == 1) return {};
  return compile::compile_through("assign_stages", step, {}).share.layers;
}

}  // namespace

CacheRows cache_rows(const model::ModelConfig& model, const ModelOptions& options, int64_t slots,
                     int64_t context) {
  const compile::CompileRequest step = request(model, compile::ProgramKind::kDecode, 1, 1, options);
  const SlotShare share = share_of(model, step.layout, options);
  return {.share = share,
          .rows = (slots + share.ranks - 1) / share.ranks,
          .spare = share.ranks > 1 ? 1 : 0,
          .context = context,
          .chunk = std::min(options.gpu ? kGpuChunk : kGroup, context),
          .stages = stages_of(step)};
}

compile::CompileRequest decode_request(const model::ModelConfig& model, const ModelOptions& options,
                                       const CacheRows& cache, int64_t rows, int64_t tokens) {
  compile::CompileRequest r = request(model, compile::ProgramKind::kDecode, rows, tokens, options);
  r.cache_tokens = cache.context;
  r.layout.stages = cache.stages;
  return r;
}

int64_t group_of_row(int64_t row) { return row / kGroup; }

const DecodeRange& DecodeRanges::step(int64_t first, int64_t last) const {
  for (const DecodeRange& r : steps)
    if (r.first <= first && last < r.first + r.rows) return r;
  CHECK(false, "no program reads rows {} to {}", first, last);
}

DecodePrograms decode_programs(
    const CacheRows& cache, const std::function<Program(int64_t rows, int64_t tokens)>& compiled) {
  DecodePrograms out;
  out.programs.push_back(compiled(cache.all(), 1));
  const auto add = [&](const Program& program, DecodeRange r) {
    r.program = out.programs.size();
    out.programs.push_back(program);
    share_state(out.programs.back(), out.programs[0], r.first);
    return r;
  };
  std::vector<DecodeRange>& steps = out.ranges.steps;
  for (int64_t rows = 1; rows <= std::min(cache.rows, kGroup); rows *= 2) {
    const Program step = compiled(rows, 1);
    const int64_t stride = rows == 1 ? 1 : kGroup;  // a program per row, or per group
    for (int64_t first = 0; first + rows <= cache.rows; first += stride)
      steps.push_back(add(step, {.first = first, .rows = rows}));
  }
  // The rows of a group that powers of two do not cover.
  for (int64_t first = 0; first < cache.rows; first += kGroup) {
    const int64_t rows = std::min(kGroup, cache.rows - first);
    if ((rows & (rows - 1)) != 0)
      steps.push_back(add(compiled(rows, 1), {.first = first, .rows = rows}));
  }
  std::ranges::stable_sort(steps, {}, &DecodeRange::rows);
  const Program chunk = compiled(1, cache.chunk);
  for (int64_t row = 0; row < cache.all(); ++row)
    out.ranges.chunks.push_back(add(chunk, {.first = row, .rows = 1, .tokens = cache.chunk}));
  return out;
}

}  // namespace tessera::eval
