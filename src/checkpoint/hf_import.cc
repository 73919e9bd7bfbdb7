// Converts a Hugging Face folder to a checkpoint, piece by piece: each source tensor is transposed,
// converted to f32 and written as one piece of a tensor of Tessera, and its pages are released.
#include "checkpoint/hf_folder.h"

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/convert.h"
#include "checkpoint/hf_source.h"

namespace tessera::checkpoint {
namespace {

namespace fs = std::filesystem;

void refuse_what_stands(const Path& checkpoint) {
  std::error_code error;
  if (fs::exists(checkpoint, error) && !fs::is_empty(checkpoint, error))
    throw Error("{}: exists already. Choose another path, or remove it first.",
                checkpoint.string());
}

}  // namespace

HfImport import_hf(const Path& hf_folder, const Path& checkpoint, const std::string& version,
                   bool with_tokenizer, const OnTensor& on_tensor) {
  HfSource source = open_hf(hf_folder);
  if (!with_tokenizer) source.header.tokenizer.clear();
  refuse_what_stands(checkpoint);
  source.header.version = version;
  HfImport result;
  result.model = source.model;
  result.skipped = source.skipped;
  result.has_tokenizer = !source.header.tokenizer.empty();

  // The writer creates the checkpoint under a temporary name and renames it in commit(), so a
  // failed import leaves nothing that looks like a checkpoint.
  CheckpointWriter writer(checkpoint, {}, Existing::kIsKept);
  const auto add = [&](const StateTensor& t, const FillPiece& fill) {
    try {
      writer.add_streamed(t, fill);
    } catch (const NumericError& e) {
      throw NumericError("{}: {} It is not imported.", hf_folder.string(), sentence(e.what()));
    }
  };
  for (size_t i = 0; i < source.tensors.size(); ++i) {
    const StoredTensor& stored = source.tensors[i];
    if (on_tensor) on_tensor(static_cast<int64_t>(i), std::ssize(source.tensors));
    result.stored_as = stored.dtype;
    for (size_t p = 0; p < stored.pieces.size(); ++p) {
      const HfPiece& piece = source.pieces[i][p];
      StateTensor t;
      t.name = stored.name;
      t.shape = stored.shape;
      t.begin = stored.pieces[p].begin;
      t.end = stored.pieces[p].end;
      add(t, piece.filled(stored.dtype, DType::kF32));
      release_pages(piece.bytes);
      release_pages(piece.scales);
      result.parameters += piece.view.elements();
      ++result.tensors;
    }
  }
  writer.commit(source.header);
  return result;
}

}  // namespace tessera::checkpoint
