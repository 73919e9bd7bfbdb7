// Rejects output files that exist already.
#include "cli/output_file.h"

#include <filesystem>

namespace tessera {

void add_force(Arguments& arguments, bool& force) {
  arguments.flag(force, "--force", "replace existing files");
}

void refuse_existing(const std::string& file, bool force) {
  std::error_code error;
  if (!force && std::filesystem::is_regular_file(file, error))
    throw Error("{}: exists already. Choose another place, or give --force to replace it.", file);
}

}  // namespace tessera
