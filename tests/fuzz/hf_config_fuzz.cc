// Any bytes as a config.json give a model, whose tensors can be listed and which is written and
// read the same, or an Error.
#include "base/error.h"
#include "model/hf_config.h"
#include "model/hf_names.h"
#include "tests/base/tree_mutator.h"
#include "tests/fuzz/custom_mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace tessera;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    model::ModelConfig model =
        model::model_from_hf_config(parse_json(text, "config.json"), "config.json");
    model.layers = std::min<int64_t>(model.layers, 3);
    model.encoder_layers = std::min<int64_t>(model.encoder_layers, 3);
    for (const model::HfTensor& t : model::hf_tensors(model))
      CHECK(t.shape.elements() > 0 && t.part().elements() == t.their_shape.elements(), "{}",
            t.theirs);
    const Tree once = model::hf_config_of_model(model, 1, DType::kF32);
    const Tree again =
        model::hf_config_of_model(model::model_from_hf_config(once, "written"), 1, DType::kF32);
    CHECK(to_json(once) == to_json(again), "{} is read back as {}", to_json(once), to_json(again));
  } catch (const Error&) {
  }
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t most, unsigned seed) {
  using namespace tessera;
  if (seed % 4 == 0) return LLVMFuzzerMutate(data, size, most);
  try {
    Tree tree = parse_json({reinterpret_cast<const char*>(data), size}, "input");
    TreeMutator(seed).change(tree);
    return put_mutated(to_json(tree), data, size, most);
  } catch (const Error&) {
    return LLVMFuzzerMutate(data, size, most);
  }
}
