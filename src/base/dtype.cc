#include "base/dtype.h"

#include <array>

#include "base/error.h"

namespace tessera {
namespace {

struct Row {
  DType type;
  std::string_view name;
  int64_t bytes;
};
constexpr std::array<Row, 8> kTypes{{{DType::kF32, "f32", 4},
                                     {DType::kBF16, "bf16", 2},
                                     {DType::kF16, "f16", 2},
                                     {DType::kF64, "f64", 8},
                                     {DType::kI32, "i32", 4},
                                     {DType::kI64, "i64", 8},
                                     {DType::kU16, "u16", 2},
                                     {DType::kU8, "u8", 1}}};

const Row& row(DType t) {
  const auto i = static_cast<size_t>(t);
  CHECK(i < kTypes.size() && kTypes[i].type == t, "dtype {} is not in the table", i);
  return kTypes[i];
}

}  // namespace

int64_t size_of(DType t) { return row(t).bytes; }
std::string_view name_of(DType t) { return row(t).name; }

std::optional<DType> dtype_from_name(std::string_view s) {
  for (const Row& r : kTypes)
    if (r.name == s) return r.type;
  return std::nullopt;
}

}  // namespace tessera
