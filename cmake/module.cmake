# tessera_module(NAME MAY_INCLUDE module… [SOURCES file…] [FOLDERS folder…] [ALONE file…] [LINK library…])
#
# A module is a folder of src/ and one static library. Of FOLDERS, which have a file for each op or
# kernel, all sources are taken. These lines are the architecture:
# scripts/check_modules.py reads them and fails on any #include they do not allow.
#
# Most of a compilation is reading headers, so the compiler reads several SOURCES as one. Files of
# FOLDERS are compiled alone: each defines the same functions for another op. So are those listed in
# ALONE, for names or macros that another source of the module has too.
function(tessera_module NAME)
  cmake_parse_arguments(MODULE "" "" "MAY_INCLUDE;SOURCES;FOLDERS;ALONE;LINK" ${ARGN})
  foreach(folder IN LISTS MODULE_FOLDERS)
    file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc)
    list(APPEND MODULE_ALONE ${sources})
  endforeach()
  add_library(tessera_${NAME} STATIC ${MODULE_SOURCES} ${MODULE_ALONE})
  set_source_files_properties(${MODULE_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  # Kernels compile themselves again for each instruction set, which macros of each source arrange.
  if(NOT NAME STREQUAL kernels)
    tessera_together(tessera_${NAME} 12)
  endif()
  target_link_libraries(tessera_${NAME} PUBLIC tessera_options)
  foreach(other IN LISTS MODULE_MAY_INCLUDE)
    # A module may name one that is only headers so far.
    target_link_libraries(tessera_${NAME} PUBLIC $<TARGET_NAME_IF_EXISTS:tessera_${other}>)
  endforeach()
  if(MODULE_LINK)
    target_link_libraries(tessera_${NAME} PRIVATE ${MODULE_LINK})
  endif()
  tessera_once(tessera_${NAME})
endfunction()

# Lets the compiler read COUNT sources of TARGET as one. Their paths are made relative to the checkout,
# so that a compiler cache serves several checkouts.
function(tessera_together TARGET COUNT)
  set_target_properties(${TARGET} PROPERTIES
    UNITY_BUILD ${TESSERA_UNITY} UNITY_BUILD_BATCH_SIZE ${COUNT})
  target_compile_options(${TARGET} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=>)
endfunction()

# TESSERA_ONCE minimizes build time: common headers are precompiled, and kernels are compiled only for
# this CPU, fully optimized.
function(tessera_once MODULE)
  if(NOT TESSERA_ONCE)
    return()
  endif()
  if(MODULE STREQUAL tessera_kernels)
    target_compile_options(${MODULE} PRIVATE -march=native)
    target_compile_definitions(${MODULE} PRIVATE HWY_COMPILE_ONLY_STATIC)
    return()
  endif()
  if(NOT TARGET tessera_headers)
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/headers.cc CONTENT "")
    find_package(fmt REQUIRED)
    add_library(tessera_headers OBJECT ${CMAKE_BINARY_DIR}/headers.cc)
    target_link_libraries(tessera_headers PRIVATE tessera_options fmt::fmt)
    target_precompile_headers(tessera_headers PRIVATE <algorithm> <array> <functional> <map>
      <memory> <optional> <set> <span> <string> <string_view> <utility> <vector> <fmt/format.h>)
  endif()
  target_precompile_headers(${MODULE} REUSE_FROM tessera_headers)
endfunction()

# A program of scripts/gpu_bundle.sh finds the libraries next to it, and no other program does. The tag
# DT_RPATH, older than the linker's default, applies to the libraries of these libraries too.
function(tessera_bundled PROGRAM)
  if(TESSERA_HAS_CUDA)
    set_property(TARGET ${PROGRAM} APPEND PROPERTY BUILD_RPATH "$ORIGIN/../lib")
    target_link_options(${PROGRAM} PRIVATE -Wl,--disable-new-dtags)
  endif()
endfunction()

# Test code is compiled with -O1, because it takes most of the build time. Programs that include the
# compiler verify the state after each pass.
function(tessera_test_program NAME SOURCES MODULES LINK)
  foreach(module compile config plan train eval measure cli)
    if(module IN_LIST MODULES)
      list(APPEND SOURCES $<TARGET_OBJECTS:tessera_verify_passes>)
      break()
    endif()
  endforeach()
  add_executable(${NAME} ${SOURCES})
  list(TRANSFORM MODULES PREPEND tessera_)
  target_link_libraries(${NAME} PRIVATE ${MODULES} ${LINK})
  target_include_directories(${NAME} PRIVATE ${CMAKE_SOURCE_DIR})
  target_compile_options(${NAME} PRIVATE $<$<CONFIG:Release>:-O1>)
  tessera_together(${NAME} 8)
endfunction()

# tessera_test(NAME SOURCES file… [ALONE file…] MODULES module… [LABELS fast|slow] [LINK library…])
# One GoogleTest program; every test of it is a ctest case. ALONE as in tessera_module.
function(tessera_test NAME)
  cmake_parse_arguments(TEST "" "" "SOURCES;ALONE;MODULES;LABELS;LINK" ${ARGN})
  if(NOT TEST_LABELS)
    set(TEST_LABELS fast)
  endif()
  if(TEST_ALONE)
    set_source_files_properties(${TEST_ALONE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  endif()
  tessera_test_program(${NAME} "${TEST_SOURCES};${TEST_ALONE}" "${TEST_MODULES}"
    "${TEST_LINK};GTest::gtest_main")
  gtest_discover_tests(${NAME} PROPERTIES LABELS "${TEST_LABELS}" DISCOVERY_TIMEOUT 60)
endfunction()

# tessera_mpi_test(NAME SOURCES file… MODULES module… RANKS n… [LABELS fast|slow])
# One GoogleTest program with its own main, run whole under mpirun: one ctest case a number of
# ranks.
function(tessera_mpi_test NAME)
  cmake_parse_arguments(TEST "" "" "SOURCES;MODULES;RANKS;LABELS" ${ARGN})
  if(NOT TEST_LABELS)
    set(TEST_LABELS fast)
  endif()
  find_package(MPI REQUIRED COMPONENTS CXX)
  tessera_test_program(${NAME} "${TEST_SOURCES}" "${TEST_MODULES}" GTest::gtest)
  foreach(ranks IN LISTS TEST_RANKS)
    add_test(NAME ${NAME}.${ranks}
      COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none -n ${ranks} $<TARGET_FILE:${NAME}>)
    set_tests_properties(${NAME}.${ranks} PROPERTIES LABELS "${TEST_LABELS}" TIMEOUT 120 PROCESSORS 2
      ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMP_NUM_THREADS=1")
  endforeach()
endfunction()
