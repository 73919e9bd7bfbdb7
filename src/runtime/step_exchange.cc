// The exchange of a step with the device: batches and step numbers to it, reports and logits from
// it. The buffers are pinned, so the copies are asynchronous. Events mark when the host may
// overwrite the sent buffers and read the fetched ones.
#include "runtime/step_exchange.h"

#include "ir/state.h"

namespace tessera::runtime {
namespace {

bool is_sent(Role r) { return is_batch(r) || r == Role::kStep; }
bool is_fetched(Role r) {
  return r == Role::kReport || r == Role::kLogits || r == Role::kActivation || r == Role::kHidden;
}

}  // namespace

StepExchange::StepExchange(const BoundProgram& bound) : bound_(bound) {
  const Program& p = bound.program();
  for (const Buffer& f : p.buffers) {
    if (!f.state) continue;
    const BufferKind& kind = p.kind(f.kind);
    const Role role = p[kind.values.at(0)].role;
    const TensorView device = {bound.arena().data() + f.offset, DType::kU8, {kind.bytes}};
    if (is_sent(role)) sent_.push_back(bound.arena().host(device));
    if (is_fetched(role)) results_.push_back(device);
  }
  if (bound.has(Role::kStep)) host_step_ = bound.view(bound.only(Role::kStep)).as<double>();
}

std::vector<MemoryRange> StepExchange::host_memory() const {
  std::vector<MemoryRange> all;
  const auto add = [&](const TensorView& host) {
    all.push_back({host.as<std::byte>(), host.bytes()});
  };
  for (const TensorView& t : sent_) add(t);
  for (const TensorView& t : results_) add(bound_.arena().host(t));
  return all;
}

void StepExchange::send(Stream main) {
  for (const TensorView& t : sent_) bound_.arena().upload(main, t);
  read_.record(main);
}

// The next step starts before the host has read the report of this one, so the device copies the
// flag that this step was skipped.
void StepExchange::carry_skip(Stream main) const {
  const auto of_device = [&](Role role, int slot) {
    return bound_.device_address(bound_.only(role)) + kernels::bytes_for<double>(slot);
  };
  copy_in_stream(main, of_device(Role::kStep, kPreviousSkipped), of_device(Role::kReport, kSkip),
                 sizeof(double));
}

void StepExchange::fetch(Stream main) {
  if (fetching_) return;
  for (const TensorView& t : results_) bound_.arena().download(main, t);
  fetched_.record(main);
  fetching_ = true;
}

}  // namespace tessera::runtime
