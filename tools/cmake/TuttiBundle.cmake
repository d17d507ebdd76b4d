# TUTTI_BUNDLE=DIR: libraries come from an unpacked bundle (tools/bundle) and from nowhere else, neither from the system nor from
# what an earlier configure of this build folder has found. What the bundle lacks (GoogleTest, Benchmark) is not built. Compiler,
# Threads, Python and the CUDA Toolkit are the machine's own.
if(NOT EXISTS "${TUTTI_BUNDLE}/contents.txt")
  message(FATAL_ERROR "TUTTI_BUNDLE=${TUTTI_BUNDLE} is no unpacked bundle (it has no contents.txt): tools/bundle --unpack FILE DIR")
endif()

# Archives of another processor or of a newer C library would fail at the end of the build, without a reason.
file(READ "${TUTTI_BUNDLE}/contents.txt" tutti_bundle_contents)
string(REGEX MATCH "machine ([^\n]+)\nglibc ([0-9.]+)" tutti_bundle_made_on "${tutti_bundle_contents}")
set(tutti_bundle_machine "${CMAKE_MATCH_1}")
set(tutti_bundle_glibc "${CMAKE_MATCH_2}")
execute_process(COMMAND getconf GNU_LIBC_VERSION OUTPUT_VARIABLE tutti_own_glibc OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
string(REPLACE "glibc " "" tutti_own_glibc "${tutti_own_glibc}")
if(NOT tutti_bundle_machine STREQUAL CMAKE_SYSTEM_PROCESSOR)
  message(FATAL_ERROR "TUTTI_BUNDLE=${TUTTI_BUNDLE} was made for ${tutti_bundle_machine}, and this is ${CMAKE_SYSTEM_PROCESSOR}: make "
                      "one on a machine of this kind")
elseif(tutti_own_glibc VERSION_LESS tutti_bundle_glibc)
  message(WARNING "TUTTI_BUNDLE=${TUTTI_BUNDLE} was made with glibc ${tutti_bundle_glibc}, and this is ${tutti_own_glibc}: if linking fails, "
                  "make the bundle on an older Debian or Ubuntu")
endif()

if(BUILD_SHARED_LIBS AND NOT TUTTI_COMM_ONLY)
  message(FATAL_ERROR "TUTTI_BUNDLE and BUILD_SHARED_LIBS=ON: the archives of libpng, libjpeg, libtiff and zlib are made for programs and "
                      "fit into no shared library: leave BUILD_SHARED_LIBS off")
endif()

list(PREPEND CMAKE_PREFIX_PATH "${TUTTI_BUNDLE}")
set(OPENSSL_USE_STATIC_LIBS ON)
include_directories(SYSTEM "${TUTTI_BUNDLE}/include")  # Asio, which has no package
foreach(package Eigen3 CLI11 nlohmann_json GTest benchmark)
  file(GLOB_RECURSE config "${TUTTI_BUNDLE}/lib/${package}Config.cmake" "${TUTTI_BUNDLE}/share/${package}Config.cmake")
  if(config)
    get_filename_component(${package}_DIR "${config}" DIRECTORY)
    set(${package}_DIR "${${package}_DIR}" CACHE PATH "from TUTTI_BUNDLE" FORCE)
  elseif(package STREQUAL "GTest")
    set(TUTTI_TESTS OFF CACHE BOOL "OFF: no GoogleTest in TUTTI_BUNDLE")
  elseif(package STREQUAL "benchmark")
    set(TUTTI_BENCH OFF CACHE BOOL "OFF: no Google Benchmark in TUTTI_BUNDLE")
  endif()
endforeach()

# At the end of configuring: nothing was found elsewhere.
function(tutti_check_bundle)
  get_cmake_property(names CACHE_VARIABLES)
  foreach(name IN LISTS names)
    if(name MATCHES "^(OPENSSL|ZLIB|PNG|JPEG|TIFF|SECCOMP)_([A-Z_]+_)?(INCLUDE_DIR|LIBRARY|LIBRARY_RELEASE|LIBRARY_DEBUG)$"
       OR name MATCHES "^(Eigen3|CLI11|nlohmann_json|GTest|benchmark)_DIR$")
      string(FIND "${${name}}" "${TUTTI_BUNDLE}/" at)
      if(${name} AND NOT at EQUAL 0)
        message(FATAL_ERROR "${name}=${${name}} is not in TUTTI_BUNDLE=${TUTTI_BUNDLE}. Was this build folder configured without the "
                            "bundle before, or with TUTTI_TESTS=ON and a bundle made without --tests? Configure again with --fresh")
      endif()
    endif()
  endforeach()
  message(STATUS "Libraries are those of ${TUTTI_BUNDLE}")
endfunction()
cmake_language(DEFER CALL tutti_check_bundle)
