# report_assets(OUT): writes the source OUT, which contains the texts of the pages of `tessera report` and
# `tessera plan --html`: those of src/report/page and the chart library dygraphs (MIT license), from the Debian package
# libjs-dygraphs.
set(DYGRAPHS_VERSION 2.2.1)
set(DYGRAPHS_SHA256 065bb9a7158dadc02b1c204b962dcc45279304dffbe80d5cb898ff33afac5c40)

# Literals may have at most 65,536 characters, so a text is an array of pieces. Pieces end at line
# ends or spaces, so that no character of several bytes is divided.
function(report_literal TEXT OUT)
  set(literals "")
  string(LENGTH "${TEXT}" length)
  set(begin 0)
  while(begin LESS length)
    math(EXPR count "${length} - ${begin}")
    if(count GREATER 60000)
      string(SUBSTRING "${TEXT}" ${begin} 60000 piece)
      string(FIND "${piece}" " " count REVERSE)
      math(EXPR count "${count} + 1")
    endif()
    string(SUBSTRING "${TEXT}" ${begin} ${count} piece)
    string(APPEND literals "R\"~piece~(${piece})~piece~\",\n")
    math(EXPR begin "${begin} + ${count}")
  endwhile()
  set(${OUT} "${literals}" PARENT_SCOPE)
endfunction()

function(report_assets OUT)
  find_file(DYGRAPHS_SCRIPT dygraph.min.js PATHS /usr/share/javascript/dygraphs)
  find_file(DYGRAPHS_STYLES dygraph.min.css PATHS /usr/share/javascript/dygraphs)
  if(NOT DYGRAPHS_SCRIPT OR NOT DYGRAPHS_STYLES)
    message(FATAL_ERROR "dygraphs was not found, which draws the charts of `tessera report`. "
      "Install the package libjs-dygraphs: scripts/install_packages.sh build")
  endif()
  file(SHA256 ${DYGRAPHS_SCRIPT} sum)
  if(NOT sum STREQUAL DYGRAPHS_SHA256)
    message(WARNING "${DYGRAPHS_SCRIPT} is not the file of dygraphs ${DYGRAPHS_VERSION} that the report is "
      "tested with: sha256 ${sum}, expected ${DYGRAPHS_SHA256}")
  endif()
  set(folder ${CMAKE_CURRENT_SOURCE_DIR}/page)
  set(functions "")
  foreach(entry page_template:${folder}/page.html page_styles:${folder}/page.css
      page_script:${folder}/page.js plan_template:${folder}/plan.html plan_script:${folder}/plan.js
      common_script:${folder}/common.js chart_library:${DYGRAPHS_SCRIPT} chart_styles:${DYGRAPHS_STYLES})
    string(FIND "${entry}" ":" colon)
    string(SUBSTRING "${entry}" 0 ${colon} name)
    math(EXPR colon "${colon} + 1")
    string(SUBSTRING "${entry}" ${colon} -1 file)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} text)
    # A browser would request the source maps, which the page does not have.
    string(REGEX REPLACE "//# sourceMappingURL=[^\n]*" "" text "${text}")
    string(REGEX REPLACE "/\\*# sourceMappingURL=[^\n]*\\*/" "" text "${text}")
    report_literal("${text}" pieces)
    string(APPEND functions "std::string ${name}() {\n"
      "  static constexpr std::string_view kPieces[] = {\n${pieces}};\n"
      "  return joined(kPieces);\n}\n\n")
  endforeach()
  file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT [[
#include "report/assets.h"

#include <span>
#include <string_view>

namespace tessera::report {
namespace {

std::string joined(std::span<const std::string_view> pieces) {
  std::string text;
  for (const std::string_view piece : pieces) text += piece;
  return text;
}

}  // namespace

@functions@}  // namespace tessera::report
]])
endfunction()
