# Writes the source OUT, which contains the commit of the files in SOURCE: COMMIT if it is given, otherwise what Git
# reports, "" without Git. Run at each build (src/cli/CMakeLists.txt); OUT is only replaced if the commit changed.
set(commit "${COMMIT}")
if(commit STREQUAL "")
  execute_process(COMMAND git -C ${SOURCE} rev-parse --show-prefix OUTPUT_VARIABLE prefix ERROR_QUIET
    OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed)
  # SOURCE may be a folder inside another repository, whose commit does not describe these files.
  if(NOT failed AND prefix STREQUAL "")
    execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
      OUTPUT_VARIABLE commit ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
endif()
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT [[
#include "cli/verbs.h"

namespace tessera::cli {

const char* commit() { return "@commit@"; }

}  // namespace tessera::cli
]])
