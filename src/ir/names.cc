#include "ir/names.h"

#include <array>

namespace tessera {
namespace {

using namespace std::string_view_literals;

constexpr std::array kQueueNames = {
    "compute"sv,         "copy_in"sv,      "copy_out"sv,        "data"sv,
    "groups"sv,          "send_forward"sv, "receive_forward"sv, "send_backward"sv,
    "receive_backward"sv};
constexpr std::array kAccessNames = {"read"sv, "write"sv, "add"sv, "update"sv};
constexpr std::array kAxisNames = {"pipeline"sv, "replica"sv,   "shard"sv, "expert"sv,
                                   "context"sv,  "tensor_kv"sv, "tensor"sv};
// Of Place: -1, -2, …
constexpr std::array kPlaceNames = {"replicated"sv, "shared"sv, "partial"sv, "partial_max"sv};
static_assert(kQueueNames.size() == kQueues && kAxisNames.size() == kMaxAxes);

template <class E, size_t N>
std::optional<E> entry(const std::array<std::string_view, N>& names, std::string_view s) {
  for (size_t i = 0; i < N; ++i)
    if (names[i] == s) return static_cast<E>(i);
  return std::nullopt;
}

}  // namespace

std::string_view name_of(Queue q) { return kQueueNames.at(static_cast<size_t>(q)); }
std::string_view name_of(Access a) { return kAccessNames.at(static_cast<size_t>(a)); }
std::string_view name_of(AxisKind a) { return kAxisNames.at(static_cast<size_t>(a)); }

std::optional<std::string_view> name_of_place(int8_t place) {
  if (place >= 0) return std::nullopt;
  return kPlaceNames.at(static_cast<size_t>(-1 - place));
}

std::optional<Queue> queue_named(std::string_view s) { return entry<Queue>(kQueueNames, s); }
std::optional<Access> access_named(std::string_view s) { return entry<Access>(kAccessNames, s); }
std::optional<AxisKind> axis_named(std::string_view s) { return entry<AxisKind>(kAxisNames, s); }

std::optional<int8_t> place_named(std::string_view s) {
  const auto i = entry<int>(kPlaceNames, s);
  if (!i) return std::nullopt;
  return static_cast<int8_t>(-1 - *i);
}

std::optional<Role> role_named(std::string_view s) {
  for (int r = 0; r <= static_cast<int>(Role::kScratch); ++r)
    if (name_of(static_cast<Role>(r)) == s) return static_cast<Role>(r);
  return std::nullopt;
}

}  // namespace tessera
