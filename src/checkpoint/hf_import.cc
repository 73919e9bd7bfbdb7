#include <set>

#include "base/config.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/hf_folder.h"
#include "checkpoint/index.h"
#include "checkpoint/pages.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/transposed.h"
#include "model/hf_config.h"
#include "model/hf_names.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxListed = 12;  // faults named in one message

// One of our tensors and where it lies in the folder.
struct Match {
  HfTensor names;
  SafetensorsFolder::Found found;
};

std::string listed(const std::vector<std::string>& faults) {
  std::string text;
  for (size_t i = 0; i < std::min(faults.size(), kMaxListed); ++i) text += "\n  " + faults[i];
  if (faults.size() > kMaxListed)
    text += fmt::format("\n  and {} more", faults.size() - kMaxListed);
  return text;
}

// The file's name of a tensor: as it should be, or without the prefix of the whole model.
std::string name_in(const SafetensorsFolder& files, const std::string& full,
                    std::string_view prefix) {
  if (full.starts_with(prefix) && !files.find(full)) return full.substr(prefix.size());
  return full;
}

void check_tensor(const SafetensorsEntry& entry, const Shape& wanted,
                  std::vector<std::string>& faults) {
  if (entry.shape != wanted)
    faults.push_back(fmt::format("{}: has the shape {}, wanted {}", entry.name,
                                 to_string(entry.shape), to_string(wanted)));
  const bool known =
      entry.dtype == DType::kF32 || entry.dtype == DType::kBF16 || entry.dtype == DType::kF16;
  if (!known)
    faults.push_back(
        fmt::format("{}: is stored as {}, wanted F32, BF16 or F16", entry.name, entry.type));
}

std::vector<Match> match(const SafetensorsFolder& files, const ModelConfig& model,
                         const std::string& source, std::vector<std::string>& skipped) {
  std::vector<Match> matches;
  std::vector<std::string> faults;
  std::set<std::string> used;
  for (HfTensor& t : hf_tensors(model)) {
    const std::string name = name_in(files, t.theirs, hf_prefix(model.family));
    const auto found = files.find(name);
    if (!found) {
      faults.push_back(fmt::format("{}: missing, wanted {}", t.theirs, to_string(t.their_shape)));
      continue;
    }
    used.insert(name);
    check_tensor(*found->entry, t.their_shape, faults);
    matches.push_back({std::move(t), *found});
  }
  for (const std::string& name : files.names()) {
    if (used.contains(name)) continue;
    if (hf_is_buffer(model, name))
      skipped.push_back(name);
    else
      faults.push_back(name + ": not a tensor of this model");
  }
  if (!faults.empty())
    throw Error(
        "{}: its tensors are not those of the model that config.json describes ({} layers, "
        "width {}):{}",
        source, model.layers, model.hidden, listed(faults));
  return matches;
}

void refuse_what_stands(const Path& checkpoint) {
  std::error_code error;
  if (fs::exists(checkpoint, error) && !fs::is_empty(checkpoint, error))
    throw Error("{}: exists already. Choose another place, or remove it first.",
                checkpoint.string());
}

CheckpointHeader header_of(const ModelConfig& model, const Path& hf_folder,
                           const std::string& version) {
  CheckpointHeader header;
  header.version = version;
  header.model = to_tree(model);
  header.config = Tree::object();
  header.state = Tree::object();
  header.state.set("imported_from", Tree(hf_folder.filename().string()));
  std::error_code error;
  for (const char* name : {kTokenizerFile, kSentencePieceFile, "spiece.model"}) {
    if (!header.tokenizer.empty() || !fs::exists(hf_folder / name, error)) continue;
    header.tokenizer = read_file(hf_folder / name);
  }
  return header;
}

}  // namespace

HfImport import_hf(const Path& hf_folder, const Path& checkpoint, const std::string& version) {
  const Path config = hf_folder / "config.json";
  std::error_code error;
  if (!fs::exists(config, error))
    throw Error("{}: has no config.json; wanted a folder as transformers' save_pretrained makes it",
                hf_folder.string());
  refuse_what_stands(checkpoint);
  HfImport result;
  result.model =
      model_from_hf_config(parse_json(read_file(config), config.string()), config.string());
  const SafetensorsFolder files(hf_folder);
  const auto matches = match(files, result.model, hf_folder.string(), result.skipped);
  const CheckpointHeader header = header_of(result.model, hf_folder, version);
  result.has_tokenizer = !header.tokenizer.empty();

  CheckpointWriter writer(checkpoint);
  for (const Match& m : matches) {
    StateTensor t;
    t.name = m.names.ours;
    t.shape = m.names.shape;
    t.begin = m.names.begin;
    t.end = m.names.end();
    result.stored_as = *m.found.entry->dtype;
    writer.add_streamed(
        t, transposed(m.found.bytes, result.stored_as, m.names.view, m.names.axes, DType::kF32));
    release_pages(m.found.bytes);
    result.parameters += m.names.part().elements();
  }
  result.tensors = static_cast<int64_t>(matches.size());
  writer.commit(header);
  return result;
}

}  // namespace tessera
