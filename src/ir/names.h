// Words of the printed text that enums have.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ir/program.h"

namespace tessera {

// The name of a value, kind or segment.
template <class T>
std::string entry_name(const T& entry) {
  if constexpr (requires { entry.name(); })
    return entry.name();
  else
    return entry.name;
}

// Suffixes of names from which the parser derives what the text does not state otherwise.
constexpr const char* kGradientSuffix = ".gradient";  // "layer.up.weight.gradient"
constexpr const char* kWeightsSuffix = ".weights";    // kinds of frames: "layer.weights" …
constexpr const char* kFactorsSuffix = ".factors";    // … and the factors of Adafactor for them
constexpr const char* kGradientSum = "gradient";      // origin of a Sum of gradients
constexpr const char* kOutputSuffix = "'";            // "hidden'": what a block writes to "hidden"

constexpr std::string_view kPeerPrefix = "stage:";  // of the peer of a message

std::string_view name_of(Queue q);
std::string_view name_of(HiddenStream s);
std::string_view name_of(WireKind k);  // empty for kSilent
std::string_view name_of(Access a);
std::string_view name_of(AxisKind a);
// shared, partial, partial_max or replicated; none for a split.
std::optional<std::string_view> name_of_place(int8_t place);

// Nothing where no entry has that name.
std::optional<Queue> queue_named(std::string_view s);
std::optional<HiddenStream> stream_named(std::string_view s);
std::optional<WireKind> wire_kind_named(std::string_view s);
std::optional<Access> access_named(std::string_view s);
std::optional<AxisKind> axis_named(std::string_view s);
std::optional<int8_t> place_named(std::string_view s);
// Several roles have one word: see Role. `name` of the value tells them apart.
std::optional<Role> role_named(std::string_view s, std::string_view name);

// ---- Derives facts that the printed text omits: relations of values and frame kinds, attributes.
// Only the parser calls these, which has names, and the printer, which prints what they would not
// find; passes set the fields directly.

// Sets Value::copy and Value::of.
void set_origins(ValueVector& values);
// Sets FrameKind::input and FrameKind::factors_of.
void set_relations(Program& program);
// Sets Sum::of_gradients.
void set_relations(Op& op);

}  // namespace tessera
