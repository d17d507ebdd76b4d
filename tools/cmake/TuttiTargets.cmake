# What every Tutti target shares: language level, warnings, sanitizers, include root, ccache.
#
#   tutti_library(comm SOURCES a.cc b.cc DEPENDS OpenSSL::SSL PUBLIC_DEPENDS ... HEADER_ONLY tutti_asio)
#                                                                          -> target tutti_comm, alias tutti::comm
#   tutti_program(name SOURCES ... DEPENDS ...)                            -> executable in bin/
#   tutti_test(name SOURCES ... DEPENDS ... LABELS ...)                    -> one GoogleTest program, one ctest entry a case;
#                                                                             PREFIX p: the entries are named p<case>;
#                                                                             SHARDS n: n entries <name>.<i> instead, each a
#                                                                             process for every n-th case;
#                                                                             ALONE a.cc: see tutti_batches

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  if(PROJECT_IS_TOP_LEVEL)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
  elseif(NOT CMAKE_CXX_FLAGS MATCHES "-O[1-3fs]")
    message(WARNING "CMAKE_BUILD_TYPE is not set, so that Tutti is compiled without optimisation, and is 5 to 20 times slower: "
                    "configure with -DCMAKE_BUILD_TYPE=Release, or set it before Tutti is added")
  endif()
endif()
if(PROJECT_IS_TOP_LEVEL)
  set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")

# ccache takes precompiled headers into account when it may overlook what these settings name; no source here uses __TIME__.
if(PROJECT_IS_TOP_LEVEL)
  find_program(CCACHE_PROGRAM ccache)
endif()
if(PROJECT_IS_TOP_LEVEL AND CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND}" -E env "CCACHE_SLOPPINESS=pch_defines,time_macros" "${CCACHE_PROGRAM}")
endif()

# Includes read <tutti/comm/...> in the tree as after installation: a link makes the source root look installed.
file(MAKE_DIRECTORY "${PROJECT_BINARY_DIR}/include")
file(CREATE_LINK "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/include/tutti" SYMBOLIC)

# What users of a library need, too: language level, include root, threads, and the same sanitizer.
find_package(Threads REQUIRED)
add_library(tutti_usage INTERFACE)
target_compile_features(tutti_usage INTERFACE cxx_std_20)
target_include_directories(tutti_usage INTERFACE "$<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>")
target_link_libraries(tutti_usage INTERFACE Threads::Threads)
if(TUTTI_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "TUTTI_FUZZ=ON needs Clang, not ${CMAKE_CXX_COMPILER_ID}: configure with --preset fuzz")
  endif()
  set(TUTTI_SANITIZE "address,undefined")
  target_compile_options(tutti_usage INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(TUTTI_SANITIZE)
  if(TUTTI_SANITIZE MATCHES "thread" AND TUTTI_SANITIZE MATCHES "address")
    message(FATAL_ERROR "TUTTI_SANITIZE=${TUTTI_SANITIZE}: address and thread cannot be combined; use two build folders")
  endif()
  target_compile_options(tutti_usage INTERFACE "-fsanitize=${TUTTI_SANITIZE}" -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(tutti_usage INTERFACE "-fsanitize=${TUTTI_SANITIZE}")
endif()

# How our own code is compiled; no user of a library inherits it.
add_library(tutti_options INTERFACE)
target_link_libraries(tutti_options INTERFACE tutti_usage)
target_compile_options(tutti_options INTERFACE -Wall -Wextra -Wpedantic -Wconversion -Wshadow)
target_compile_options(tutti_options INTERFACE $<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-pragmas>)  # "GCC ivdep", "GCC unroll"
if(TUTTI_WERROR)
  target_compile_options(tutti_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # GCC 12 warns of overlapping copies in every std::string assigned from a literal (GCC bug 105651).
  target_compile_options(tutti_options INTERFACE -Wno-restrict)
endif()
if(TUTTI_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC's sanitizers hide initialisations from this warning, in the standard library's headers too.
  target_compile_options(tutti_options INTERFACE -Wno-maybe-uninitialized)
endif()
if(TUTTI_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Fences, Asio's and those of comm's shared memory, are what the thread sanitizer does not follow; locks and atomics it does.
  target_compile_options(tutti_options INTERFACE -Wno-tsan)
endif()
if(TUTTI_MARCH)
  target_compile_options(tutti_options INTERFACE "-march=${TUTTI_MARCH}")
endif()

# With TUTTI_FAST_BUILD the sources of a target that lie in one folder are compiled eight at a time (only in FOLDERS, if given;
# those after ALONE excepted): half of a small source's time goes into headers that its neighbours read as well. Names without
# linkage must then differ within a folder. Call it beside the target.
function(tutti_batches target)
  cmake_parse_arguments(ARG "" "" "FOLDERS;ALONE" ${ARGN})
  if(NOT TUTTI_FAST_BUILD)
    return()
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  list(REMOVE_ITEM sources ${ARG_ALONE})
  foreach(source IN LISTS sources)
    get_filename_component(folder "${source}" DIRECTORY)
    if(folder STREQUAL "")
      set(folder .)
    endif()
    if(ARG_FOLDERS AND NOT folder IN_LIST ARG_FOLDERS)
      continue()
    endif()
    string(MAKE_C_IDENTIFIER "in_${folder}" group)
    math(EXPR batch "0${count_${group}} / 8")
    math(EXPR count_${group} "0${count_${group}} + 1")
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${group}_${batch}")
  endforeach()
endfunction()

# Compiles `target` as the given interface targets say, without being linked with them: no user of it hears of them.
function(tutti_compile_as target)
  foreach(other IN LISTS ARGN)
    target_compile_definitions(${target} PRIVATE "$<TARGET_PROPERTY:${other},INTERFACE_COMPILE_DEFINITIONS>")
    target_compile_options(${target} PRIVATE "$<TARGET_PROPERTY:${other},INTERFACE_COMPILE_OPTIONS>")
    target_include_directories(${target} SYSTEM PRIVATE "$<TARGET_PROPERTY:${other},INTERFACE_INCLUDE_DIRECTORIES>")
  endforeach()
endfunction()

# The code of `target` waits for people and processes, not for memory: -O3 would take 40 % of its compiler's time.
function(tutti_waits_for_others target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
endfunction()

# DEPENDS are linked; HEADER_ONLY are seen by its sources alone. Those under tools/ are parts of our programs, always static, and
# wait for others but for those that measure (MEASURES).
# Other static libraries hold position-independent code, so that they can go into a shared object (a Python module, a plugin).
# Shared ones export what has tutti:: in its name (exports.map) and no template of a library that they use.
function(tutti_library name)
  cmake_parse_arguments(ARG "MEASURES" "" "SOURCES;DEPENDS;PUBLIC_DEPENDS;HEADER_ONLY" ${ARGN})
  set(target tutti_${name})
  string(FIND "${CMAKE_CURRENT_SOURCE_DIR}/" "${PROJECT_SOURCE_DIR}/tools/" at_tools)
  if(at_tools EQUAL 0)
    add_library(${target} STATIC ${ARG_SOURCES})
  else()
    add_library(${target} ${ARG_SOURCES})
  endif()
  add_library(tutti::${name} ALIAS ${target})
  target_link_libraries(${target} PUBLIC tutti_usage ${ARG_PUBLIC_DEPENDS} PRIVATE ${ARG_DEPENDS})
  tutti_compile_as(${target} tutti_options ${ARG_HEADER_ONLY})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
  if(at_tools EQUAL 0)
    if(NOT ARG_MEASURES)
      tutti_waits_for_others(${target})
    endif()
    return()
  endif()
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  # Calls within a library are direct, and may be inlined, as if it were a part of the program.
  target_compile_options(${target} PRIVATE -fno-semantic-interposition -fvisibility-inlines-hidden)
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    set(exports "${PROJECT_SOURCE_DIR}/tools/cmake/exports.map")
    target_link_options(${target} PRIVATE "LINKER:--version-script=${exports}")
    set_target_properties(${target} PROPERTIES LINK_DEPENDS "${exports}")
  endif()
endfunction()

function(tutti_program name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE tutti_options ${ARG_DEPENDS})
endfunction()

# How test code is compiled. It need not be fast itself: half of the compiler's time would go into -O3.
add_library(tutti_test_options INTERFACE)
target_compile_options(tutti_test_options INTERFACE $<$<CONFIG:Release>:-Og>)
if(TUTTI_FAST_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  target_compile_options(tutti_test_options INTERFACE -fpch-preprocess)  # lets ccache see the precompiled header
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # From a precompiled header GCC 12 reports the false alarms of std::string that it keeps to itself otherwise (GCC bug
    # 105651, as above). The asan preset has no precompiled header and keeps these warnings for the same sources.
    target_compile_options(tutti_test_options INTERFACE -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread)
  endif()
endif()

function(tutti_use_test_headers target)
  if(TUTTI_FAST_BUILD)
    target_precompile_headers(${target} REUSE_FROM tutti_test_headers)
  endif()
endfunction()

function(tutti_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;PREFIX;SHARDS" "SOURCES;DEPENDS;LABELS;ALONE" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE tutti_options tutti_test_options ${ARG_DEPENDS} GTest::gtest GTest::gtest_main)
  tutti_use_test_headers(${name})
  tutti_batches(${name} ALONE ${ARG_ALONE})
  if(ARG_SHARDS)
    foreach(i RANGE 1 ${ARG_SHARDS})
      math(EXPR index "${i} - 1")
      add_test(NAME ${name}.${i} COMMAND ${name})
      set_tests_properties(${name}.${i} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
                           ENVIRONMENT "GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${index}")
    endforeach()
    return()
  endif()
  gtest_discover_tests(${name} TEST_PREFIX "${ARG_PREFIX}" DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT ${ARG_TIMEOUT})
  # gtest_discover_tests takes lists apart, so that only the first of several labels would count.
  set(labels_file "${CMAKE_CURRENT_BINARY_DIR}/${name}_labels.cmake")
  file(WRITE "${labels_file}" "if(${name}_TESTS)\n"
       "  set_tests_properties(\${${name}_TESTS} PROPERTIES LABELS \"${ARG_LABELS}\")\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${labels_file}")
endfunction()
