# CUDA, where its toolkit is: TESSERA_HAS_CUDA says so to the rooms, which take absent.cc without it.
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
      set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "Cards to compile for: 80;90;100")
    endif()
    enable_language(CUDA)
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
  set(CMAKE_CUDA_FLAGS_RELEASE "-O3 -lineinfo")
  if(CCACHE)
    set(CMAKE_CUDA_COMPILER_LAUNCHER ${CCACHE})
  endif()
  target_compile_options(tessera_options INTERFACE
    $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -Xcompiler=-Wall,-Wextra>
    $<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${TESSERA_WERROR}>>:--Werror=all-warnings>)
  message(STATUS "CUDA ${CUDAToolkit_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
endif()
