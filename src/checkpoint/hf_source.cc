// Reads a Hugging Face folder as if it were a checkpoint. config.json has the model, hf_tensors()
// lists the source name and the transposition of each of Tessera's tensors, and the files are
// mapped, so a box is read without converting the rest. All faults of a folder are collected into
// one error.
#include "checkpoint/hf_source.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/config.h"
#include "base/wire_message.h"
#include "checkpoint/convert.h"
#include "checkpoint/hf_text.h"
#include "checkpoint/index.h"
#include "checkpoint/mxfp4.h"
#include "checkpoint/stored_model.h"
#include "model/family.h"
#include "model/hf_config.h"
#include "model/hf_names.h"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;

// A tensor of Tessera and the data for it in the folder.
struct Match {
  model::HfTensor names;
  SafetensorsFolder::Found found;
  std::span<const std::byte> scales = {};  // the scales of MXFP4 blocks `found`; or none
};

// Returns the name of a tensor in the files: the full name, or the name without `prefix`, which
// files of a model without its head lack.
std::string name_in(const SafetensorsFolder& files, const std::string& full,
                    std::string_view prefix) {
  if (full.starts_with(prefix) && !files.find(full)) return full.substr(prefix.size());
  return full;
}

void check_tensor(const SafetensorsEntry& entry, const Shape& wanted,
                  std::vector<std::string>& faults) {
  if (entry.shape != wanted)
    faults.push_back(fmt::format("{}: has the shape {}, expected {}", entry.name,
                                 to_string(entry.shape), to_string(wanted)));
  const bool known =
      entry.dtype == DType::kF32 || entry.dtype == DType::kBF16 || entry.dtype == DType::kF16;
  if (!known)
    faults.push_back(
        fmt::format("{}: is stored as {}, expected F32, BF16 or F16", entry.name, entry.type));
}

// Returns a matrix of experts that the files have in MXFP4 as NAME_blocks and NAME_scales, if they
// do. `used` gets these names.
std::optional<Match> match_mxfp4(const SafetensorsFolder& files, std::string_view prefix,
                                 const model::HfTensor& tensor, std::set<std::string>& used,
                                 std::vector<std::string>& faults) {
  const std::string blocks_name = name_in(files, tensor.theirs + "_blocks", prefix);
  const std::string scales_name = name_in(files, tensor.theirs + "_scales", prefix);
  const auto blocks = files.find(blocks_name), scales = files.find(scales_name);
  if (!blocks || !scales) return std::nullopt;
  used.insert({blocks_name, scales_name});
  const Shape& ours = tensor.shape;
  const int64_t rows = ours.product(1, ours.rank() - 1), columns = ours[-1] / kMxfp4Block;
  const auto check = [&](const SafetensorsFolder::Found& found, const Shape& wanted) {
    if (found.entry->dtype != DType::kU8 || found.entry->shape != wanted)
      faults.push_back(fmt::format("{}: is {} {}, expected U8 {}", found.entry->name,
                                   found.entry->type, to_string(found.entry->shape),
                                   to_string(wanted)));
  };
  check(*blocks, {ours[0], rows, columns, kMxfp4Block / 2});
  check(*scales, {ours[0], rows, columns});
  if (ours[-1] % kMxfp4Block != 0)
    faults.push_back(fmt::format("{}: has MXFP4 rows of {}, expected a multiple of {}",
                                 tensor.theirs, ours[-1], kMxfp4Block));
  return Match{tensor, *blocks, scales->bytes};
}

// Checks a stored copy of tied embeddings: versions of transformers differ in which of the two they
// use, so different contents would give different models.
void check_copy(const SafetensorsFolder::Found& copy, const std::vector<Match>& matches,
                std::vector<std::string>& faults) {
  for (const Match& m : matches)
    if (m.names.ours == "embed.weight" && !std::ranges::equal(copy.bytes, m.found.bytes))
      faults.push_back(fmt::format(
          "{}: differs from {}, but config.json ties the two. Set tie_word_embeddings to false if "
          "both are needed, or remove the wrong one",
          copy.entry->name, m.names.theirs));
}

std::vector<Match> match(const SafetensorsFolder& files, const model::ModelConfig& model,
                         const std::string& source, std::vector<std::string>& skipped) {
  std::vector<Match> matches;
  std::vector<std::string> faults;
  std::set<std::string> used;
  const std::string_view prefix = model::hf_prefix(model.family);
  for (model::HfTensor& t : model::hf_tensors(model)) {
    const std::string name = name_in(files, t.theirs, prefix);
    const auto found = files.find(name);
    if (!found && model::rule_of(model.family).hf_mxfp4)
      if (auto encoded = match_mxfp4(files, prefix, t, used, faults)) {
        matches.push_back(std::move(*encoded));
        continue;
      }
    if (!found) {
      faults.push_back(fmt::format("{}: missing, expected {}", t.theirs, to_string(t.their_shape)));
      continue;
    }
    used.insert(name);
    check_tensor(*found->entry, t.their_shape, faults);
    matches.push_back({std::move(t), *found});
  }
  for (const std::string& name : files.names()) {
    if (used.contains(name)) continue;
    // Extra tensors are errors, except buffers that are computed here and copies of tied
    // embeddings.
    if (model::hf_is_embedding(model, name)) check_copy(*files.find(name), matches, faults);
    if (model::hf_is_buffer(model, name) || model::hf_is_embedding(model, name))
      skipped.push_back(name);
    else
      faults.push_back(name + ": not a tensor of this model");
  }
  // Entries of one Hugging Face tensor follow each other, and have the same faults.
  faults.erase(std::unique(faults.begin(), faults.end()), faults.end());
  if (!faults.empty())
    throw Error(
        "{}: its tensors are not those of the model that config.json describes ({} layers, "
        "width {}):{}",
        source, model.layers, model.hidden, listed_faults(faults));
  return matches;
}

CheckpointHeader header_of(const model::ModelConfig& model, const Tree& config,
                           const Path& hf_folder) {
  CheckpointHeader header;
  header.model = tessera::to_tree(model);
  header.config = Tree::object();
  header.state = Tree::object();
  header.state.set("imported_from", Tree(hf_folder.filename().string()));
  std::error_code error;
  if (fs::exists(hf_folder / kTokenizerFile, error))
    header.tokenizer = read_file(hf_folder / kTokenizerFile);
  // A tokenizer.json next to a SentencePiece model is a conversion of it; the model is the
  // original.
  for (const char* name : {kSentencePieceFile, "spiece.model"}) {
    if (!fs::exists(hf_folder / name, error)) continue;
    std::string bytes = read_file(hf_folder / name);
    if (header.tokenizer.empty() || begins_with_field_1(bytes)) header.tokenizer = std::move(bytes);
  }
  const bool json = tokenizer_file_name(header.tokenizer) == std::string_view(kTokenizerFile);
  const bool by_class = !json && !model::rule_of(model.family).has_encoder;
  read_text_rules(hf_folder, config, by_class, header.state);
  return header;
}

// Returns the part of a Hugging Face tensor that holds a part of our tensor.
HfPiece piece_of(const Match& m, DType type) {
  const model::HfTensor& names = m.names;
  const int64_t n = names.view.elements();
  if (m.scales.empty())
    return {m.found.bytes.subspan(names.their_begin() * size_of(type), n * size_of(type)),
            names.view, names.axes};
  const Shape part = names.part();
  std::vector<int> axes(part.rank());
  std::iota(axes.begin(), axes.end(), 0);
  const auto of_row = [&](std::span<const std::byte> all, int64_t bytes) {
    return all.subspan(names.their_row * bytes, bytes);
  };
  return {of_row(m.found.bytes, n / 2), part, std::move(axes), of_row(m.scales, n / kMxfp4Block)};
}

// Lists Tessera's tensors by name. One may consist of several source tensors (query, key and value
// in one), which become adjacent pieces of it; the sort is stable to keep their order.
void add_tensors(std::vector<Match> matches, const std::string& source, HfSource& out) {
  std::stable_sort(matches.begin(), matches.end(),
                   [](const Match& a, const Match& b) { return a.names.ours < b.names.ours; });
  for (Match& m : matches) {
    const DType type = m.scales.empty() ? *m.found.entry->dtype : DType::kBF16;
    if (out.tensors.empty() || out.tensors.back().name != m.names.ours) {
      out.tensors.push_back({m.names.ours, type, m.names.shape, {}});
      out.pieces.emplace_back();
    }
    StoredTensor& t = out.tensors.back();
    if (t.dtype != type)
      throw Error(
          "{}: {} is stored as {}, but another part of {} is stored as {}. Expected one type for "
          "all parts.",
          source, m.names.theirs, name_of(type), t.name, name_of(t.dtype));
    StoredPiece& p = t.pieces.emplace_back();
    p.begin = m.names.begin;
    p.end = m.names.end();
    out.pieces.back().push_back(piece_of(m, type));
    p.bytes = std::ssize(out.pieces.back().back().bytes);
  }
}

// Checks generation_config.json, which transformers reads in preference to config.json.
void check_generation(const Path& folder, const model::ModelFamily& family) {
  const Path file = folder / "generation_config.json";
  std::error_code error;
  if (family.hf_check_start == nullptr || !fs::exists(file, error)) return;
  const Tree tree = parse_json(read_file(file), file.string());
  if (tree.as_members()) family.hf_check_start(model::HfReader(tree, file.string()));
}

}  // namespace

bool HfPiece::moves() const { return !std::is_sorted(axes.begin(), axes.end()); }

FillPiece HfPiece::filled(DType from, DType to) const {
  if (!is_encoded()) return transposed(bytes, from, view, axes, to);
  return
      [blocks = bytes, factors = scales, from, to](int64_t first, int64_t count, std::byte* out) {
        std::vector<std::byte> decoded(count * size_of(from));
        decode_mxfp4(blocks, factors, first, count, decoded.data());
        convert(decoded.data(), from, out, to, count);
      };
}

bool is_hf_folder(const Path& folder) {
  std::error_code error;
  return fs::exists(folder / "config.json", error) && !fs::exists(folder / kIndexFile, error);
}

HfSource open_hf(const Path& folder) {
  const Path config = folder / "config.json";
  std::error_code error;
  if (!fs::exists(config, error))
    throw Error(
        "{}: has no config.json, expected a folder as written by save_pretrained of transformers",
        folder.string());
  HfSource out;
  const Tree said = parse_json(read_file(config), config.string());
  out.model = model::model_from_hf_config(said, config.string());
  out.files = std::make_unique<SafetensorsFolder>(folder);
  const model::ModelFamily& family = model::rule_of(out.model.family);
  // In some families, files without an LM head mean that it is tied to the embedding.
  if (!out.files->find(std::string(family.hf_head))) model::tie_missing_head(out.model);
  if (out.model.mtp_depth > 0 && !out.files->find(model::hf_mtp_tensor(out.model)))
    out.model.mtp_depth = 0;
  check_generation(folder, family);
  add_tensors(match(*out.files, out.model, folder.string(), out.skipped), folder.string(), out);
  out.header = header_of(out.model, said, folder);
  return out;
}

void copy_box(const Box& common, const Box& from_box, const HfPiece& from, const Box& to_box,
              std::byte* to, int64_t element_bytes) {
  if (!from.moves() && !from.is_encoded())
    return tessera::copy_box(common, from_box, from.bytes.data(), to_box, to, element_bytes);
  // Transposed and encoded pieces are gathered run by run along the last dimension of Tessera's
  // tensor.
  const size_t rank = common.begin.size();
  const int64_t run = common.end[rank - 1] - common.begin[rank - 1];
  const Shape from_extents = from_box.extents(), to_extents = to_box.extents();
  const auto flat = [&](const std::vector<int64_t>& at, const Box& box, const Shape& extents) {
    int64_t n = 0;
    for (size_t d = 0; d < rank; ++d) n = n * extents.dims()[d] + at[d] - box.begin[d];
    return n;
  };
  for (std::vector<int64_t> at = common.begin;;) {
    const int64_t first = flat(at, from_box, from_extents);
    std::byte* const own = to + flat(at, to_box, to_extents) * element_bytes;
    if (from.is_encoded())
      decode_mxfp4(from.bytes, from.scales, first, run, own);
    else
      copy_permuted(from.bytes.data(), from.view, from.axes, element_bytes, first, run, own);
    size_t d = rank - 1;  // advance to the next run, which spans the last dimension
    while (d > 0 && ++at[d - 1] == common.end[d - 1]) {
      at[d - 1] = common.begin[d - 1];
      --d;
    }
    if (d == 0) return;
  }
}

}  // namespace tessera::checkpoint
