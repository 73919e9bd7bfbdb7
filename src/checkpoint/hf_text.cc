#include "checkpoint/hf_text.h"

#include <filesystem>

#include "base/text_template.h"
#include "checkpoint/durable.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/index.h"

namespace tessera {
namespace {

Tree read_if_there(const Path& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return {};
  return parse_json(read_file(file), file.string());
}

const Tree* given(const Tree& tree, std::string_view key) {
  const Tree* t = tree.as_members() ? tree.find(key) : nullptr;
  return t && !t->is_null() ? t : nullptr;
}

// One id, or a list of them.
Tree as_list(const Tree& ids) {
  if (ids.as_list()) return ids;
  Tree list = Tree::list();
  list.push(ids);
  return list;
}

// By tokenizer_config.json, and by the template where that says nothing.
void read_around(const Path& folder, const Tree& config, Tree& state) {
  const Tree said = read_if_there(folder / "tokenizer_config.json");
  TextTemplate around;
  if (!given(said, "add_bos_token") || !given(said, "add_eos_token"))
    around = read_text_template(read_if_there(folder / kTokenizerFile));
  const auto adds = [&](const char* key, const std::string& token) {
    const Tree* t = given(said, key);
    const bool* yes = t ? std::get_if<bool>(&t->value) : nullptr;
    return t ? yes && *yes : !token.empty();
  };
  const Tree* begin = given(config, "bos_token_id");
  if (begin && adds("add_bos_token", around.begin)) state.set("begin", *begin);
  const Tree* end = given(config, "eos_token_id");
  if (!end || !adds("add_eos_token", around.end)) return;
  const Tree::List* several = end->as_list();
  if (!several || !several->empty()) state.set("end", several ? several->front() : *end);
}

std::optional<int32_t> as_id(const Tree& t) {
  const auto* n = std::get_if<int64_t>(&t.value);
  if (!n || *n < 0 || *n > INT32_MAX) return std::nullopt;
  return static_cast<int32_t>(*n);
}

}  // namespace

void read_text_rules(const Path& folder, const Tree& config, bool by_class, Tree& state) {
  const Tree generation = read_if_there(folder / "generation_config.json");
  const Tree* ends = given(generation, "eos_token_id");
  if (!ends && !generation.as_members()) ends = given(config, "eos_token_id");
  if (ends) state.set("stops", as_list(*ends));
  if (by_class) read_around(folder, config, state);
}

HfTextRules hf_text_rules(const CheckpointHeader& header) {
  HfTextRules r;
  if (!given(header.state, "imported_from")) return r;
  if (const Tree* begin = given(header.state, "begin")) r.begin = as_id(*begin);
  if (const Tree* end = given(header.state, "end")) r.end = as_id(*end);
  if (const Tree* stops = given(header.state, "stops"); stops && stops->as_list())
    for (const Tree& id : *stops->as_list())
      if (as_id(id)) r.stops.push_back(*as_id(id));
  return r;
}

void keep_text_rules(const CheckpointHeader& from, CheckpointHeader& to) {
  if (!given(from.state, "imported_from") || from.tokenizer != to.tokenizer) return;
  if (!to.state.as_members()) to.state = Tree::object();
  for (const char* key : {"imported_from", "begin", "end"})
    if (const Tree* said = given(from.state, key)) to.state.set(key, *said);
}

}  // namespace tessera
