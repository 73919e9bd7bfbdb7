// The option --force of the commands that write files.
#include "cli/output_file.h"

namespace tessera {

void add_force(Arguments& arguments, bool& force) {
  arguments.flag(force, "--force", "replace existing files");
}

}  // namespace tessera
