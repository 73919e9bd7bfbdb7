// Writes the gradients of a step: as a safetensors file in Hugging Face's layout, for comparisons
// with PyTorch, or as a checkpoint of any layout, for comparisons between layouts.
#include "train/gradient_file.h"

#include <algorithm>
#include <deque>
#include <memory>

#include "base/box.h"
#include "base/error.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/transposed.h"
#include "kernels/cast.h"
#include "model/hf_names.h"

namespace tessera {

namespace {

constexpr const char* kGradients = "gradients";  // in the state of a dump's header

void write_for_hugging_face(const Path& file, Trainer& trainer, const ModelConfig& model) {
  const std::vector<StateTensor> gradients = trainer.gradients();
  // The sums of fp16 runs contain the loss scale as a factor.
  const double tokens = trainer.loss_tokens() * trainer.loss_scale();
  std::vector<HfTensor> tensors = hf_tensors(model);
  std::erase_if(tensors, [&](const HfTensor& t) {  // what is frozen has none
    return std::none_of(gradients.begin(), gradients.end(),
                        [&](const StateTensor& g) { return g.name == t.ours; });
  });
  const auto fill = [&](const HfTensor& t) -> FillPiece {
    const auto g = std::find_if(gradients.begin(), gradients.end(),
                                [&](const auto& x) { return x.name == t.ours; });
    CHECK(g != gradients.end(), "no gradient of {}", t.ours);
    // One tensor at a time: the mean, in a copy that lives until it is written.
    const Shape part = t.part();
    auto mean = std::make_shared<std::vector<float>>(part.elements());
    const Box box{t.begin, t.end()};
    std::vector<std::byte> sums(part.elements() * size_of(g->data.dtype));
    copy_box(box, whole_box(t.shape), static_cast<const std::byte*>(g->data.data), box, sums.data(),
             size_of(g->data.dtype));
    kernels::launch(
        kernels::Cpu(), {.threads = trainer.machine().kernels().threads()},
        kernels::CastArgs{{sums.data(), g->data.dtype, part}, {mean->data(), DType::kF32, part}});
    for (float& x : *mean) x = static_cast<float>(x / tokens);
    const FillPiece piece = transposed(std::as_bytes(std::span(*mean)), DType::kF32, part,
                                       inverse(t.axes), DType::kF32);
    return
        [mean, piece](int64_t first, int64_t count, std::byte* out) { piece(first, count, out); };
  };
  const auto groups = by_theirs(tensors);
  std::vector<SafetensorsPlan> plan;
  for (const auto& group : groups)
    plan.push_back({group[0].theirs, DType::kF32, group[0].their_shape});
  write_safetensors(file, plan, [&](size_t i) {
    std::vector<FillPiece> parts;
    std::vector<int64_t> elements;
    for (const HfTensor& t : groups[i]) {
      parts.push_back(fill(t));
      elements.push_back(t.view.elements());
    }
    return joined(std::move(parts), std::move(elements), size_of(DType::kF32));
  });
}

}  // namespace

void require_place_for_gradients(const Path& file) {
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, error))) return;
  try {
    if (file.extension() != ".safetensors" &&
        CheckpointReader(file).header().state.find(kGradients) != nullptr)
      return;
  } catch (const Error&) {  // it is not a checkpoint
  }
  throw Error(
      "run.dump_gradients = {}: exists already and is not replaced. Choose another path, or move "
      "it "
      "away.",
      file.string());
}

void write_gradients(const Path& file, Trainer& trainer, const ModelConfig& model,
                     const SaveGroup& group) {
  if (file.extension() == ".safetensors") {
    if (group.ranks > 1)
      throw Error(
          "run.dump_gradients = {}: Hugging Face's form is written by one rank. Without "
          ".safetensors the gradients of any layout are written as a checkpoint.",
          file.string());
    return write_for_hugging_face(file, trainer, model);
  }
  CheckpointWriter writer(file, group);
  // Written as f32, whatever the gradients are summed in, so that those of any two layouts can be
  // compared.
  // A deque does not move its elements, which the writer's views refer to.
  std::deque<std::vector<float>> wide;
  for (StateTensor t : trainer.gradients()) {
    if (size_of(t.data.dtype) < 4) {
      wide.emplace_back(static_cast<size_t>(t.data.elements()));
      const TensorView to = {wide.back().data(), DType::kF32, t.data.shape};
      kernels::launch(kernels::Cpu(), {.threads = trainer.machine().kernels().threads()},
                      kernels::CastArgs{t.data, to});
      t.data = to;
      t.dtype = DType::kF32;
    }
    writer.add(t);
  }
  CheckpointHeader header;
  header.model = to_tree(model);
  header.state.set(kGradients, Tree(true));
  writer.commit(header);
}

}  // namespace tessera
