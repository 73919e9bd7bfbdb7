// Names of enumerators in the printed text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "ir/program.h"

namespace tessera {

// Returns the name of a value, buffer kind or segment.
template <class T>
std::string entry_name(const T& entry) {
  if constexpr (requires { entry.name(); })
    return entry.name();
  else
    return entry.name;
}

// Suffixes of names from which the parser derives relations that the text does not state otherwise.
constexpr const char* kGradientSuffix = ".gradient";  // "layer.up.weight.gradient"
constexpr const char* kWeightsSuffix = ".weights";    // buffer kinds: "layer.weights" …
constexpr const char* kFactorsSuffix = ".factors";  // … and Adafactor's factored moments for them
constexpr const char* kGradientSum = "gradient";    // origin of a Sum of gradients
constexpr const char* kOutputSuffix = "'";          // "hidden'": a block's output in the stream
                                                    // "hidden"

constexpr std::string_view kPeerPrefix = "stage:";  // prefix of the peer of a message

std::string_view name_of(Queue q);
std::string_view name_of(HiddenStream s);
std::string_view name_of(CommKind k);  // empty for kSilent
std::string_view name_of(Access a);
std::string_view name_of(AxisKind a);
std::string_view name_of(ContextCut c);
// Returns shared, partial, partial_max or replicated; nothing for a split.
std::optional<std::string_view> name_of_place(int8_t place);

// Return nothing if no enumerator has that name.
std::optional<Queue> queue_named(std::string_view s);
std::optional<HiddenStream> stream_named(std::string_view s);
std::optional<CommKind> comm_kind_named(std::string_view s);
std::optional<Access> access_named(std::string_view s);
std::optional<AxisKind> axis_named(std::string_view s);
std::optional<ContextCut> context_cut_named(std::string_view s);
std::optional<int8_t> place_named(std::string_view s);
// Several roles share one name (see Role); `name`, that of the value, distinguishes them.
std::optional<Role> role_named(std::string_view s, std::string_view name);

// ---- Derives facts that the printed text omits: relations of values and buffer kinds, attributes.
// Only the parser, which has names, and the printer, which prints what these functions would not
// find, call them; passes set the fields directly.

// Sets Value::copy and Value::of.
void set_origins(ValueVector& values);
// Sets BufferKind::input and BufferKind::factors_of.
void set_relations(Program& program);
// Sets Sum::of_gradients.
void set_relations(Op& op);

}  // namespace tessera
