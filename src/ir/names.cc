// The names of enumerations in the text of programs. The index in a table is the value of the
// enumeration; the static_asserts fail if an enumerator is added without a name.
#include "ir/names.h"

#include <array>

namespace tessera {
namespace {

using namespace std::string_view_literals;

constexpr std::array kQueueNames = {
    "compute"sv,          "copy_in"sv,      "copy_out"sv,        "data"sv,
    "groups"sv,           "send_forward"sv, "receive_forward"sv, "send_backward"sv,
    "receive_backward"sv, "tensor"sv};
// In the order of Phase.
constexpr std::array kPhaseNames = {"forward"sv,       "light"sv,
                                    "again"sv,         "backward"sv,
                                    "weights"sv,       ""sv,
                                    "pack"sv,          "clear"sv,
                                    "gather"sv,        "reduce"sv,
                                    "finish"sv,        "join"sv,
                                    "sum.report"sv,    "squares"sv,
                                    "clip"sv,          "measure"sv,
                                    "sum.measure"sv,   "factor"sv,
                                    "sum.factor"sv,    "update"sv,
                                    "send_forward"sv,  "receive_forward"sv,
                                    "send_backward"sv, "receive_backward"sv,
                                    "keep_sent"sv,     "release_sent"sv,
                                    "offload"sv,       "fetch"sv};
constexpr std::array kWireKindNames = {
    ""sv, "segment"sv, "all_reduce"sv, "reduce_scatter"sv, "all_gather"sv, "send"sv, "receive"sv};
constexpr std::array kHiddenStreamNames = {"hidden"sv, "source"sv};
constexpr std::array kAccessNames = {"read"sv, "write"sv, "add"sv, "update"sv};
constexpr std::array kAxisNames = {"pipeline"sv, "replica"sv,   "shard"sv, "expert"sv,
                                   "context"sv,  "tensor_kv"sv, "tensor"sv};
// Names of the placements -1, -2, …
constexpr std::array kPlaceNames = {"replicated"sv, "shared"sv, "partial"sv, "partial_max"sv};
static_assert(kQueueNames.size() == kQueues && kAxisNames.size() == kMaxAxes);
static_assert(kPhaseNames.size() == kPhases && kHiddenStreamNames.size() == kHiddenStreams);
static_assert(kWireKindNames.size() == kWireKinds);

template <class E, size_t N>
std::optional<E> entry(const std::array<std::string_view, N>& names, std::string_view s) {
  for (size_t i = 0; i < N; ++i)
    if (names[i] == s) return static_cast<E>(i);
  return std::nullopt;
}

}  // namespace

std::string_view name_of(Queue q) { return kQueueNames.at(static_cast<size_t>(q)); }
std::string_view name_of(Phase p) { return kPhaseNames.at(static_cast<size_t>(p)); }
std::string_view name_of(HiddenStream s) { return kHiddenStreamNames.at(static_cast<size_t>(s)); }
std::string_view name_of(WireKind k) { return kWireKindNames.at(static_cast<size_t>(k)); }
std::string_view name_of(Access a) { return kAccessNames.at(static_cast<size_t>(a)); }
std::string_view name_of(AxisKind a) { return kAxisNames.at(static_cast<size_t>(a)); }

std::optional<std::string_view> name_of_place(int8_t place) {
  if (place >= 0) return std::nullopt;
  return kPlaceNames.at(static_cast<size_t>(-1 - place));
}

std::optional<Queue> queue_named(std::string_view s) { return entry<Queue>(kQueueNames, s); }
std::optional<HiddenStream> stream_named(std::string_view s) {
  return entry<HiddenStream>(kHiddenStreamNames, s);
}
std::optional<WireKind> wire_kind_named(std::string_view s) {
  return entry<WireKind>(kWireKindNames, s);
}
std::optional<Access> access_named(std::string_view s) { return entry<Access>(kAccessNames, s); }
std::optional<AxisKind> axis_named(std::string_view s) { return entry<AxisKind>(kAxisNames, s); }

std::optional<int8_t> place_named(std::string_view s) {
  const auto i = entry<int>(kPlaceNames, s);
  if (!i) return std::nullopt;
  return static_cast<int8_t>(-1 - *i);
}

std::optional<Role> role_named(std::string_view s, std::string_view name) {
  std::optional<Role> found;
  for (int i = 0; i < kRoles; ++i) {
    const auto r = static_cast<Role>(i);
    if (name_of(r) != s) continue;
    // If several roles have this word, the first is the one without a name of its own.
    if (!found || name == value_name(r)) found = r;
  }
  return found;
}

}  // namespace tessera
