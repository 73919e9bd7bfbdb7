// Writes gradients and values of a run for debugging. Paths are checked before the run starts,
// because the files are written only after the first step.
#include "train/run_dumps.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <memory>
#include <string>

#include "base/error.h"
#include "base/shape.h"
#include "checkpoint/convert.h"
#include "checkpoint/safetensors.h"
#include "comm/agree.h"
#include "kernels/elementwise.h"
#include "model/hf_names.h"
#include "model/model_config.h"
#include "train/trainer.h"

namespace tessera::train {
namespace {

// ---- The gradients of a step: as a safetensors file in Hugging Face's memory layout, for
// comparisons with PyTorch, or as a checkpoint of any layout, for comparisons between layouts.

constexpr const char* kGradients = "gradients";  // a member of `state` in the header of a dump

void write_for_hugging_face(const Path& file, Trainer& trainer, const model::ModelConfig& model) {
  const std::vector<checkpoint::StateTensor> gradients = trainer.gradients();
  // The sums of fp16 runs contain the loss scale as a factor.
  const double tokens = trainer.loss_tokens() * trainer.loss_scale();
  std::vector<model::HfTensor> tensors = model::hf_tensors(model);
  std::erase_if(tensors, [&](const model::HfTensor& t) {  // frozen weights have none
    return std::none_of(gradients.begin(), gradients.end(),
                        [&](const checkpoint::StateTensor& g) { return g.name == t.ours; });
  });
  const auto fill = [&](const model::HfTensor& t) -> checkpoint::FillPiece {
    const auto g = std::find_if(gradients.begin(), gradients.end(),
                                [&](const auto& x) { return x.name == t.ours; });
    CHECK(g != gradients.end(), "no gradient of {}", t.ours);
    // The mean of one tensor at a time, in a copy that exists until it is written.
    const Shape part = t.part();
    auto mean = std::make_shared<std::vector<float>>(part.elements());
    const Box box{t.begin, t.end()};
    std::vector<std::byte> sums(part.elements() * size_of(g->data.dtype));
    copy_box(box, whole_box(t.shape), static_cast<const std::byte*>(g->data.data), box, sums.data(),
             size_of(g->data.dtype));
    kernels::launch(
        kernels::Cpu(), {.threads = trainer.engine().kernels().threads()},
        kernels::CastArgs{{sums.data(), g->data.dtype, part}, {mean->data(), DType::kF32, part}});
    for (float& x : *mean) x = static_cast<float>(x / tokens);
    const checkpoint::FillPiece piece = checkpoint::transposed(
        std::as_bytes(std::span(*mean)), DType::kF32, part, model::inverse(t.axes), DType::kF32);
    return
        [mean, piece](int64_t first, int64_t count, std::byte* out) { piece(first, count, out); };
  };
  const auto groups = model::by_theirs(tensors);
  std::vector<checkpoint::SafetensorsPlan> plan;
  for (const auto& group : groups)
    plan.push_back({group[0].theirs, DType::kF32, group[0].their_shape});
  checkpoint::write_safetensors(file, plan, [&](size_t i) {
    std::vector<checkpoint::FillPiece> parts;
    std::vector<int64_t> elements;
    for (const model::HfTensor& t : groups[i]) {
      parts.push_back(fill(t));
      elements.push_back(t.view.elements());
    }
    return checkpoint::joined(std::move(parts), std::move(elements), size_of(DType::kF32));
  });
}

// Throws Error if something exists at `file` that is not a dump of gradients as a checkpoint.
void require_place_for_gradients(const Path& file) {
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, error))) return;
  try {
    if (file.extension() != ".safetensors" &&
        checkpoint::CheckpointReader(file).header().state.find(kGradients) != nullptr)
      return;
  } catch (const Error&) {  // it is not a checkpoint
  }
  throw Error(
      "run.dump_gradients = {}: exists already and is not replaced. Choose another path, or move "
      "it away.",
      file.string());
}

// Writes the gradients of the last step. If the name ends in .safetensors, which requires a single
// rank: gradients of the mean loss over the loss tokens in f32, with the names and shapes of
// Hugging Face, as in PyTorch's `.grad`. With any other name, on any layout: sums over the loss
// tokens as a checkpoint, for `checkpoint diff`.
void write_gradients(const Path& file, Trainer& trainer, const model::ModelConfig& model,
                     const checkpoint::SaveGroup& group) {
  if (file.extension() == ".safetensors") {
    CHECK(group.ranks == 1, "{} is written by {} ranks", file.string(), group.ranks);
    return write_for_hugging_face(file, trainer, model);
  }
  checkpoint::CheckpointWriter writer(file, group);
  // Gradients are written as f32, whatever dtype they are accumulated in, so that those of any two
  // layouts can be compared. A deque does not move its elements, which the writer's views refer to.
  std::deque<std::vector<float>> wide;
  for (checkpoint::StateTensor t : trainer.gradients()) {
    if (size_of(t.data.dtype) < 4) {
      wide.emplace_back(t.data.elements());
      const TensorView to = {wide.back().data(), DType::kF32, t.data.shape};
      kernels::launch(kernels::Cpu(), {.threads = trainer.engine().kernels().threads()},
                      kernels::CastArgs{t.data, to});
      t.data = to;
      t.dtype = DType::kF32;
    }
    writer.add(t);
  }
  checkpoint::CheckpointHeader header;
  header.model = to_tree(model);
  header.state.set(kGradients, Tree(true));
  writer.commit(header);
}

namespace fs = std::filesystem;

// Creates the directory if it is missing. Throws Error if it cannot be created or written to.
void require_folder(const char* key, const Path& folder) {
  std::error_code failed;
  fs::create_directories(folder, failed);
  if (failed)
    throw Error("{}: {}: cannot create the directory: {}. Choose another path.", key,
                folder.string(), failed.message());
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    throw Error("{}: {}: cannot be written to: {}. Choose another path.", key, folder.string(),
                std::strerror(errno));
}

}  // namespace

RunDumps::RunDumps(const config::RunConfig& config, comm::World& world)
    : config_(config), world_(world) {
  const config::RunSection& run = config.run;
  if (!run.dump_values.empty()) require_folder("run.dump_values", run.dump_values);
  if (run.dump_gradients.empty()) return;
  const Path file = run.dump_gradients;
  if (file.extension() == ".safetensors" && world.size() > 1)
    throw Error(
        "run.dump_gradients = {}: the Hugging Face format is written by one rank only. Without "
        ".safetensors the gradients of any layout are written as a checkpoint.",
        file.string());
  require_place_for_gradients(file);
  require_folder("run.dump_gradients", file.has_parent_path() ? file.parent_path() : Path("."));
}

void RunDumps::begin(Trainer& trainer) {
  if (!config_.run.dump_values.empty())
    recorder_.emplace(trainer.program(), trainer.engine().position());
}

void RunDumps::after_step(Trainer& trainer, bool is_first) {
  if (is_first && !config_.run.dump_gradients.empty())
    write_gradients(config_.run.dump_gradients, trainer, config_.model,
                    {world_.rank(), world_.size(),
                     [this](const std::string& own) { comm::require_no_error(world_, own); },
                     [this](std::string& text) { world_.broadcast(text, 0); }});
  if (recorder_) recorder_->finish(trainer.gradients(), trainer.state());
}

void RunDumps::finish() const {
  if (!recorder_) return;
  write_file(Path(config_.run.dump_values) / fmt::format("values-{}.txt", world_.rank()),
             to_text(recorder_->records()));
}

}  // namespace tessera::train
