// Writes batches into the arena. Activations overwrite them there, so the micro-batch that is
// needed after a step is copied when it is written.
#include "train/batch_memory.h"

#include <algorithm>

#include "base/error.h"

namespace tessera::train {
namespace {

template <class T>
std::span<T> whole(const TensorView& view) {
  return std::span<T>(view.as<T>(), view.elements());
}

template <class T>
void copy(const std::vector<T>& source, std::span<T> target) {
  CHECK(source.size() == target.size(), "batches of {} and {}", source.size(), target.size());
  std::copy(source.begin(), source.end(), target.begin());
}

}  // namespace

data::BatchView BatchMemory::view(runtime::Executor& e, int64_t microbatch) {
  step_ = 0;
  const auto view = [&](Role role) { return e.bound().view(e.bound().only(role), 0, microbatch); };
  data::BatchView b = {whole<int32_t>(view(Role::kTokens)), whole<int32_t>(view(Role::kLabels)),
                       whole<int32_t>(view(Role::kPositions)),
                       whole<int64_t>(view(Role::kSamples))};
  const runtime::RankPosition& at = e.bound().position();
  b.part = {at.at[AxisKind::kContext], at.mesh[AxisKind::kContext]};
  if (e.bound().has(Role::kDocuments)) b.documents = whole<int32_t>(view(Role::kDocuments));
  if (e.bound().has(Role::kSource)) b.source = whole<int32_t>(view(Role::kSource));
  return b;
}

void BatchMemory::write(runtime::Executor& e, data::BatchSource& batches, int64_t step) {
  for (int64_t m = 0; m < batches.shape().microbatches(step - 1); ++m)
    batches.fill(step - 1, m, view(e, m));
  const data::BatchView first = view(e, 0);
  const auto keep = [](auto from, auto& to) { to.assign(from.begin(), from.end()); };
  keep(first.tokens, tokens_);
  keep(first.labels, labels_);
  keep(first.positions, positions_);
  keep(first.documents, documents_);
  keep(first.source, source_);
  keep(first.samples, samples_);
  step_ = step;
}

void BatchMemory::restore(runtime::Executor& e) {
  const data::BatchView to = view(e, 0);
  copy(tokens_, to.tokens);
  copy(labels_, to.labels);
  copy(positions_, to.positions);
  copy(samples_, to.samples);
  copy(documents_, to.documents);
  copy(source_, to.source);
}

}  // namespace tessera::train
