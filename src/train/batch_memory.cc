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

StoredBatch copy_of(const data::BatchView& b) {
  const auto copied = [](auto from) { return std::vector(from.begin(), from.end()); };
  StoredBatch out = {copied(b.tokens), copied(b.labels),  copied(b.positions), copied(b.documents),
                     copied(b.source), copied(b.answers), copied(b.samples)};
  for (const data::MtpView& a : b.mtp) {
    out.mtp_tokens.push_back(copied(a.tokens));
    out.mtp_labels.push_back(copied(a.labels));
  }
  out.references = copied(b.references);
  return out;
}

template <class T>
void copy(const std::vector<T>& source, std::span<T> target) {
  CHECK(source.size() == target.size(), "batches of {} and {}", source.size(), target.size());
  std::copy(source.begin(), source.end(), target.begin());
}

void copy(const StoredBatch& from, const data::BatchView& to) {
  copy(from.tokens, to.tokens);
  copy(from.labels, to.labels);
  copy(from.positions, to.positions);
  copy(from.documents, to.documents);
  copy(from.source, to.source);
  copy(from.answers, to.answers);
  copy(from.samples, to.samples);
  for (size_t d = 0; d < to.mtp.size(); ++d) {
    copy(from.mtp_tokens.at(d), to.mtp[d].tokens);
    copy(from.mtp_labels.at(d), to.mtp[d].labels);
  }
  copy(from.references, to.references);
}

}  // namespace

data::BatchView BatchMemory::view(runtime::Executor& e, int64_t microbatch) {
  step_ = 0;
  const auto view = [&](Role role) { return e.bound().view(e.bound().only(role), 0, microbatch); };
  data::BatchView b = {whole<int32_t>(view(Role::kTokens)), whole<int32_t>(view(Role::kLabels)),
                       whole<int32_t>(view(Role::kPositions)),
                       whole<int64_t>(view(Role::kSamples))};
  const runtime::RankPosition& at = e.bound().position();
  const Program& program = e.bound().program();
  const ContextCut cut = program[e.bound().only(Role::kTokens)].sharding.cut;
  b.part = {at.at[AxisKind::kContext], at.mesh[AxisKind::kContext], cut == ContextCut::kZigzag};
  if (e.bound().has(Role::kDocuments)) b.documents = whole<int32_t>(view(Role::kDocuments));
  const auto views = [&](Role role) {
    std::vector<std::span<int32_t>> all;
    for (const ValueId v : program.values.ids())
      if (program[v].role == role && program[v].buffer != kNone)
        all.push_back(whole<int32_t>(e.bound().view(v, 0, microbatch)));
    return all;
  };
  const auto tokens = views(Role::kMtpTokens), labels = views(Role::kMtpLabels);
  for (size_t d = 0; d < tokens.size(); ++d) b.mtp.push_back({tokens[d], labels.at(d)});
  if (e.bound().has(Role::kSource)) b.source = whole<int32_t>(view(Role::kSource));
  if (e.bound().has(Role::kAnswers)) b.answers = whole<int32_t>(view(Role::kAnswers));
  if (e.bound().has(Role::kReferences)) b.references = whole<double>(view(Role::kReferences));
  return b;
}

void BatchMemory::write(runtime::Executor& e, data::BatchSource& batches, int64_t step) {
  for (int64_t m = 0; m < batches.shape().microbatches(step - 1); ++m)
    batches.fill(step - 1, m, view(e, m));
  first_ = copy_of(view(e, 0));
  step_ = step;
}

void BatchMemory::restore(runtime::Executor& e) { copy(first_, view(e, 0)); }

std::vector<StoredBatch> BatchMemory::stored(runtime::Executor& e, int64_t microbatches) {
  const int64_t step = step_;
  std::vector<StoredBatch> all;
  for (int64_t m = 0; m < microbatches; ++m) all.push_back(copy_of(view(e, m)));
  step_ = step;
  return all;
}

void BatchMemory::rewrite(runtime::Executor& e, std::span<const StoredBatch> batches,
                          int64_t step) {
  for (int64_t m = 0; m < std::ssize(batches); ++m) copy(batches[m], view(e, m));
  first_ = batches[0];
  step_ = step;
}

void copy_row(const StoredBatch& from, size_t row, const data::BatchView& to, size_t to_row) {
  const size_t rows = to.samples.size();
  const auto copied = [&](const auto& source, auto target) {
    const size_t length = target.size() / rows;
    CHECK(source.size() >= (row + 1) * length, "row {} of {} numbers", row, source.size());
    std::copy_n(source.begin() + row * length, length, target.begin() + to_row * length);
  };
  copied(from.tokens, to.tokens);
  copied(from.labels, to.labels);
  copied(from.positions, to.positions);
  copied(from.documents, to.documents);
  copied(from.source, to.source);
  copied(from.answers, to.answers);
  copied(from.samples, to.samples);
  copied(from.references, to.references);
}

}  // namespace tessera::train
