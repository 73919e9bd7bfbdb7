# CUDA, where its toolkit is: TESSERA_HAS_CUDA says so to the modules, which take absent.cc without it.
# The libraries that are needed on a device alone are found when the program runs.
set(TESSERA_CUDA AUTO CACHE STRING "Build for CUDA: AUTO (where there is nvcc of CUDA 13), ON or OFF")
set(TESSERA_HAS_CUDA OFF)
if(NOT TESSERA_CUDA STREQUAL OFF AND NOT TESSERA_SANITIZE)
  find_program(TESSERA_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH
    PATHS /usr/local/cuda PATH_SUFFIXES bin)
  set(version 0)
  if(TESSERA_NVCC)
    execute_process(COMMAND ${TESSERA_NVCC} --version OUTPUT_VARIABLE about)
    string(REGEX MATCH "release ([0-9]+)" found "${about}")
    set(version ${CMAKE_MATCH_1})
  endif()
  if(version GREATER_EQUAL 13)
    set(CMAKE_CUDA_COMPILER ${TESSERA_NVCC})
    if(NOT CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "GPU architectures to compile for: 80;90;100")
    endif()
    enable_language(CUDA)
    # CMake 3.25 fails without this library, which CUDA 13 no longer has.
    if(NOT TARGET CUDA::nvToolsExt)
      add_library(CUDA::nvToolsExt INTERFACE IMPORTED)
    endif()
    find_package(CUDAToolkit 13 REQUIRED)
    set(TESSERA_HAS_CUDA ON)
    list(GET CUDAToolkit_LIBRARY_DIR 0 TESSERA_CUDA_FOLDER)  # where libraries are opened later
  elseif(TESSERA_CUDA STREQUAL ON)
    message(FATAL_ERROR "TESSERA_CUDA=ON, but there is no nvcc of CUDA 13 or later: install the "
      "toolkit, or name its folder in CUDA_HOME")
  endif()
endif()
if(TESSERA_HAS_CUDA)
  # CMake 3.25 does not know that nvcc has C++20.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  # Only this mode also compresses the machine code, by 10 times. Source lines treble the code: they contain the PTX.
  set(CMAKE_CUDA_FLAGS_RELEASE "-O3 --compress-mode=size")
  option(TESSERA_CUDA_LINES "Source lines in CUDA code, for profilers" OFF)
  if(TESSERA_CUDA_LINES)
    string(APPEND CMAKE_CUDA_FLAGS_RELEASE " -lineinfo")
  endif()
  if(CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
  target_compile_options(tessera_options INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${TESSERA_WERROR}>>:--Werror=all-warnings>)
  message(STATUS "CUDA ${CUDAToolkit_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
endif()

# cuDNN: its own headers stand beside the toolkit's, its frontend's where scripts/install_packages.sh
# puts them. The program opens the library when it runs; without the headers attention is our own.
set(TESSERA_HAS_CUDNN OFF)
if(TESSERA_HAS_CUDA)
  set(cache $ENV{XDG_CACHE_HOME})
  if(NOT cache)
    set(cache $ENV{HOME}/.cache)
  endif()
  file(STRINGS ${CMAKE_SOURCE_DIR}/scripts/cudnn_frontend.txt wheel REGEX "^[^#]")
  list(GET wheel 0 version)
  find_path(TESSERA_CUDNN_FRONTEND cudnn_frontend.h
    DOC "Folder of cuDNN's frontend's headers" NO_DEFAULT_PATH
    PATHS ${cache}/tessera/cudnn-frontend-${version}/include)
  find_path(TESSERA_CUDNN_INCLUDE cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
    DOC "Folder of cuDNN's headers")
  if(NOT TESSERA_CUDNN_INCLUDE)
    message(STATUS "cuDNN: no (cudnn_graph.h is not there); attention is our own")
  elseif(NOT TESSERA_CUDNN_FRONTEND)
    message(STATUS "cuDNN: no (scripts/install_packages.sh test brings its frontend's headers, or "
      "name their folder: TESSERA_CUDNN_FRONTEND); attention is our own")
  else()
    set(TESSERA_HAS_CUDNN ON)
    message(STATUS "cuDNN with the headers in ${TESSERA_CUDNN_FRONTEND}")
  endif()
endif()
