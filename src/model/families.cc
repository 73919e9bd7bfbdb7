// The list of model families.
#include <array>

#include "base/error.h"
#include "model/family.h"

namespace tessera::model {
namespace {

constexpr std::array kFamilies = {
    &kGpt2Family,       &kNeoxFamily,    &kLlamaFamily,   &kT5Family,       &kQwen2Family,
    &kMixtralFamily,    &kMistralFamily, &kSmollm3Family, &kPhi3Family,     &kQwen3Family,
    &kOlmo2Family,      &kGemma2Family,  &kGemma3Family,  &kQwen3MoeFamily, &kDeepseekV2Family,
    &kDeepseekV3Family, &kGptOssFamily};

}  // namespace

std::span<const ModelFamily* const> all_families() { return kFamilies; }

const ModelFamily& rule_of(Family family) {
  for (const ModelFamily* f : kFamilies)
    if (f->family == family) return *f;
  CHECK(false, "family {} is not registered in kFamilies", static_cast<int>(family));
}

}  // namespace tessera::model
