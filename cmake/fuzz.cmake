# add_fuzz(NAME SOURCES file… MODULES module… READS source… [LINK library…])
#
# A fuzz target of a parser. SOURCES define LLVMFuzzerTestOneInput: bytes in, an Error or nothing out.
# Always: <NAME>_replay reads tests/fuzz/corpus/<NAME>/ as a fast test; inputs that the fuzzer once
# found are in it. With TESSERA_FUZZ (clang): <NAME>_fuzz, which scripts/fuzz.sh runs; READS names
# the sources whose coverage it reports.
function(add_fuzz NAME)
  cmake_parse_arguments(FUZZ "" "" "SOURCES;MODULES;READS;LINK" ${ARGN})
  list(TRANSFORM FUZZ_MODULES PREPEND tessera_)
  foreach(source IN LISTS FUZZ_READS)
    if(NOT EXISTS ${CMAKE_SOURCE_DIR}/${source})
      message(FATAL_ERROR "fuzz target ${NAME}: ${source} does not exist")
    endif()
  endforeach()
  add_executable(${NAME}_replay ${FUZZ_SOURCES} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay.cc)
  target_link_libraries(${NAME}_replay PRIVATE ${FUZZ_MODULES} ${FUZZ_LINK})
  target_include_directories(${NAME}_replay PRIVATE ${CMAKE_SOURCE_DIR})
  add_test(NAME fuzz.${NAME}
    COMMAND ${NAME}_replay ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${NAME})
  set_tests_properties(fuzz.${NAME} PROPERTIES LABELS fast)
  if(TESSERA_FUZZ)
    add_executable(${NAME}_fuzz ${FUZZ_SOURCES})
    target_link_libraries(${NAME}_fuzz PRIVATE ${FUZZ_MODULES} ${FUZZ_LINK})
    target_include_directories(${NAME}_fuzz PRIVATE ${CMAKE_SOURCE_DIR})
    target_link_options(${NAME}_fuzz PRIVATE -fsanitize=fuzzer)
    list(JOIN FUZZ_READS "\n" reads)
    file(WRITE ${CMAKE_BINARY_DIR}/fuzz/${NAME}.reads "${reads}\n")
  endif()
endfunction()
