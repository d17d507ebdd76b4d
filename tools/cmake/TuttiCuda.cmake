# Whether and how CUDA is used. Sets TUTTI_CUDA_FOUND; with it, the language CUDA is enabled.
#
#   TUTTI_CUDA=AUTO   use the CUDA Toolkit when it is there and its compiler works with ours (default)
#   TUTTI_CUDA=ON     require it      TUTTI_CUDA=OFF   do without
#   CMAKE_CUDA_ARCHITECTURES=80-real;90   what is compiled: 80 and 90, and PTX of 90 for what comes later
#   CUDAToolkit_ROOT / CMAKE_CUDA_COMPILER   where it is
set(TUTTI_CUDA_FOUND FALSE)
if(NOT TUTTI_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND AND NOT CMAKE_CUDA_COMPILER AND CUDAToolkit_NVCC_EXECUTABLE)
    set(CMAKE_CUDA_COMPILER "${CUDAToolkit_NVCC_EXECUTABLE}")
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  endif()
  if(CCACHE_PROGRAM AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
    set(CMAKE_CUDA_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
  endif()
  if(CUDAToolkit_FOUND)
    include(CheckLanguage)
    check_language(CUDA)
  endif()
  if(CUDAToolkit_FOUND AND CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    set(TUTTI_CUDA_FOUND TRUE)
    message(STATUS "CUDA: ${CMAKE_CUDA_COMPILER} ${CMAKE_CUDA_COMPILER_VERSION} for ${CMAKE_CUDA_ARCHITECTURES}")
  elseif(TUTTI_CUDA STREQUAL "ON")
    message(FATAL_ERROR "TUTTI_CUDA=ON, but no working CUDA Toolkit was found: set CUDAToolkit_ROOT and CMAKE_CUDA_COMPILER, "
                        "or use TUTTI_CUDA=AUTO or OFF")
  endif()
endif()
