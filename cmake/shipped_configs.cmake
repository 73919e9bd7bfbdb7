# shipped_configs(OUT folder…): writes the source OUT, which contains the YAML files of configs/folder.
function(shipped_configs OUT)
  set(entries "")
  foreach(folder IN LISTS ARGN)
    file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/configs/${folder}/*.yaml)
    list(SORT files)
    foreach(file IN LISTS files)
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
      file(READ ${file} text)
      string(REGEX REPLACE "^.*/(.*)\\.yaml$" "\\1" name ${file})
      string(APPEND entries "    {\"${folder}\", \"${name}\", R\"yaml(${text})yaml\"},\n")
    endforeach()
  endforeach()
  file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT [[
#include "base/shipped_configs.h"

namespace tessera {

std::span<const ShippedConfig> shipped_configs() {
  static constexpr ShippedConfig kAll[] = {
@entries@  };
  return kAll;
}

}  // namespace tessera
]])
endfunction()
