#include "cli/checkpoint_adapter.h"

#include <fmt/format.h>

#include "base/real.h"
#include "checkpoint/folders.h"
#include "checkpoint/peft.h"
#include "cli/checkpoint_file.h"
#include "cli/show.h"
#include "cli/verbs.h"

namespace tessera::cli {

int import_adapter(const std::string& base, const std::string& folder, const std::string& out,
                   bool json) {
  const int64_t adapters = checkpoint::import_peft(choose_checkpoint(base), folder, out, version());
  if (json) {
    Tree t;
    t.set("checkpoint", Tree(out));
    t.set("adapters", Tree(adapters));
    fmt::print("{}\n", to_json(t));
  } else {
    show("{}: {} with {} adapters of {}\n", out, base, adapters, folder);
  }
  return 0;
}

int export_adapter(const std::string& checkpoint, const std::string& folder,
                   const std::string& base, const checkpoint::HfExportOptions& options, bool json) {
  const checkpoint::HfExportOptions only;
  if (options.dtype != only.dtype || options.max_file_bytes != only.max_file_bytes)
    throw UsageError(
        "checkpoint export: --adapter writes the adapters in f32 to one file, without --dtype and "
        "--max-file-bytes.");
  checkpoint::CheckpointReader reader(choose_checkpoint(checkpoint));
  if (options.averages) reader.use_averages();
  const checkpoint::PeftExport made = checkpoint::export_peft(std::move(reader), folder, base);
  if (json) {
    Tree t;
    t.set("folder", Tree(folder));
    t.set("adapters", Tree(made.adapters));
    t.set("parameters", Tree(made.parameters));
    fmt::print("{}\n", to_json(t));
  } else {
    show("{}: {} adapters, {:.3g} M parameters\n", folder, made.adapters,
         ratio(made.parameters, 1'000'000));
    show("  PeftModel.from_pretrained(base, '{}') loads it\n", folder);
  }
  return 0;
}

}  // namespace tessera::cli
