# Compiler, warnings, cache and linker: one place for all modules.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(TESSERA_ONCE)
  set(CMAKE_CXX_FLAGS_RELEASE "-O1")
else()
  # Kernels are compiled with -O3 (src/kernels). Elsewhere it makes the program larger, but not faster.
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
  find_program(CCACHE ccache)
  if(CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
  endif()
endif()
find_program(MOLD mold)
find_program(LLD ld.lld)
if(MOLD)
  add_link_options(-fuse-ld=mold)
elseif(LLD)
  add_link_options(-fuse-ld=lld)
endif()

add_library(tessera_options INTERFACE)
target_compile_options(tessera_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wshadow>
  # Indexes and sizes are signed and need no casts. GCC has this warning off in C++.
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CXX_COMPILER_ID:Clang>>:-Wno-sign-conversion>
  $<$<AND:$<COMPILE_LANGUAGE:CXX>,$<BOOL:${TESSERA_WERROR}>>:-Werror>
  # Of types of an anonymous namespace: GCC takes a source that is compiled with others for a header.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-subobject-linkage>
  # GCC 12 sees an overflow in fmt 9's compile-time parser that is not there.
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-stringop-overflow>)
target_include_directories(tessera_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
if(TESSERA_SANITIZE)
  target_compile_options(tessera_options INTERFACE -fsanitize=${TESSERA_SANITIZE}
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(tessera_options INTERFACE -fsanitize=${TESSERA_SANITIZE})
endif()
find_package(OpenMP REQUIRED)
