# What `cmake --install` puts where, and the package that find_package(tutti COMPONENTS comm ...) and pkg-config find. The same
# package, of the build folder instead of the prefix, stands in the build folder: -Dtutti_DIR=build/release.
#
#   tutti_component(comm DESCRIPTION "..." TARGETS tutti_comm NEEDS other components HEADERS work.h ...)
#       beside the targets; HEADERS, relative to this folder, are the public ones, and nothing else is installed
#   tutti_package()
#       at the end, once
#
# Install components: `program` (the `tutti` program), `runtime` (shared libraries), `development` (all else).
if(TUTTI_INSTALL)
  include(GNUInstallDirs)
  include(CMakePackageConfigHelpers)
  # Programs and shared libraries find the libraries wherever the prefix is moved to.
  file(RELATIVE_PATH bin_to_lib "/prefix/${CMAKE_INSTALL_BINDIR}" "/prefix/${CMAKE_INSTALL_LIBDIR}")
  set(CMAKE_INSTALL_RPATH "$ORIGIN;$ORIGIN/${bin_to_lib}")
  set(tutti_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tutti")
endif()

# What our libraries are linked with: the package of find_package, and pkg-config's module or, where there is none, libraries.
set(tutti_outside_OpenSSL::SSL "OpenSSL" "libssl")
set(tutti_outside_OpenSSL::Crypto "OpenSSL" "libcrypto")
set(tutti_outside_ZLIB::ZLIB "ZLIB" "zlib")
set(tutti_outside_PNG::PNG "PNG" "libpng")
set(tutti_outside_JPEG::JPEG "JPEG" "libjpeg")
set(tutti_outside_TIFF::TIFF "TIFF" "libtiff-4")

# Sets packages, modules and libraries in the caller, of what `targets` are linked with beside one another.
function(tutti_look_outside targets)
  set(packages "")
  set(modules "")
  set(libraries "")
  foreach(target IN LISTS targets)
    get_target_property(linked ${target} LINK_LIBRARIES)
    foreach(library IN LISTS linked)
      if(DEFINED "tutti_outside_${library}")
        list(GET "tutti_outside_${library}" 0 package)
        list(GET "tutti_outside_${library}" 1 module)
        list(APPEND packages ${package})
        list(APPEND modules ${module})
      elseif(library MATCHES "^CUDA::(.*)$")
        list(APPEND packages CUDAToolkit)
        list(APPEND libraries "-L${CUDAToolkit_LIBRARY_DIR}" "-l${CMAKE_MATCH_1}" -ldl -lrt)
      elseif(library MATCHES "^tutti(_|::)")
        continue()
      elseif(library MATCHES "^(/|-)")
        list(APPEND libraries "${library}")
      elseif(library MATCHES "^[A-Za-z0-9_.+]+$")  # by its bare name, as ${CMAKE_DL_LIBS} is
        list(APPEND libraries "-l${library}")
      else()
        message(FATAL_ERROR "${target} is linked with ${library}, of which tools/cmake/TuttiInstall.cmake does not know the package")
      endif()
    endforeach()
  endforeach()
  foreach(list packages modules libraries)
    list(REMOVE_DUPLICATES ${list})
    set(${list} "${${list}}" PARENT_SCOPE)
  endforeach()
endfunction()

function(tutti_install_headers)
  file(RELATIVE_PATH folder "${PROJECT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  foreach(header IN LISTS ARGN)
    get_filename_component(subfolder "${header}" DIRECTORY)
    install(FILES "${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/tutti/${folder}/${subfolder}" COMPONENT development)
  endforeach()
endfunction()

# tutti-NAME.pc. A shared library brings along what it needs; without one every program links that itself.
function(tutti_pkgconfig name description targets needs modules libraries)
  set(requires "")
  foreach(other IN LISTS needs)
    list(APPEND requires "tutti-${other}")
  endforeach()
  set(requires_private "")
  set(libs "")
  foreach(target IN LISTS targets)
    list(PREPEND libs "-l${target}")
  endforeach()
  set(libs_private ${libraries} -lstdc++ -lm)
  get_target_property(type tutti_comm TYPE)
  if(type STREQUAL "SHARED_LIBRARY")
    set(requires_private ${modules})
  else()
    list(APPEND requires ${modules})
    list(APPEND libs ${libraries})
    set(libs_private -lstdc++ -lm)
  endif()
  list(JOIN requires ", " requires)
  list(JOIN requires_private ", " requires_private)
  list(JOIN libs " " libs)
  list(JOIN libs_private " " libs_private)
  file(RELATIVE_PATH prefix "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
  string(REGEX REPLACE "/$" "" prefix "${prefix}")
  configure_file("${PROJECT_SOURCE_DIR}/tools/cmake/tutti.pc.in" "${PROJECT_BINARY_DIR}/pkgconfig/tutti-${name}.pc" @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/pkgconfig/tutti-${name}.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig"
          COMPONENT development)
endfunction()

# The targets of one file that find_package reads, in the prefix and in the build folder.
function(tutti_install_targets name)
  set_property(GLOBAL APPEND PROPERTY tutti_installed ${ARGN})
  foreach(target IN LISTS ARGN)
    get_target_property(type ${target} TYPE)
    if(type STREQUAL "SHARED_LIBRARY")
      set_property(GLOBAL APPEND PROPERTY tutti_shared_libraries ${target})
    endif()
  endforeach()
  install(TARGETS ${ARGN} EXPORT tutti-${name}
    RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT program
    LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT runtime NAMELINK_COMPONENT development
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development
    INCLUDES DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}")
  install(EXPORT tutti-${name} FILE tutti-${name}.cmake NAMESPACE tutti:: DESTINATION "${tutti_package_dir}" COMPONENT development)
  export(EXPORT tutti-${name} FILE "${PROJECT_BINARY_DIR}/tutti-${name}.cmake" NAMESPACE tutti::)
endfunction()

function(tutti_component name)
  cmake_parse_arguments(ARG "" "DESCRIPTION;LANGUAGE" "TARGETS;NEEDS;HEADERS" ${ARGN})
  list(TRANSFORM ARG_HEADERS PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/" OUTPUT_VARIABLE headers)
  set_property(GLOBAL APPEND PROPERTY tutti_public_headers ${headers})
  if(NOT TUTTI_INSTALL)
    return()
  endif()
  if(NOT ARG_LANGUAGE)
    set(ARG_LANGUAGE "C++20 or later: -std=c++20")
  endif()
  tutti_install_headers(${ARG_HEADERS})
  tutti_install_targets(${name} ${ARG_TARGETS})
  tutti_look_outside("${ARG_TARGETS}")
  tutti_pkgconfig(${name} "${ARG_DESCRIPTION} (${ARG_LANGUAGE})" "${ARG_TARGETS}" "${ARG_NEEDS}" "${modules}" "${libraries}")
  # A shared library has what it needs built in; who links a static one needs the packages, too.
  list(GET ARG_TARGETS 0 first)
  get_target_property(type ${first} TYPE)
  if(NOT type STREQUAL "STATIC_LIBRARY")
    set(packages "")
  endif()
  set_property(GLOBAL APPEND PROPERTY tutti_components ${name})
  set_property(GLOBAL APPEND_STRING PROPERTY tutti_component_facts
    "set(_tutti_needs_${name} \"${ARG_NEEDS}\")\nset(_tutti_packages_${name} \"${packages}\")\n")
endfunction()

# The names of all components there can be, built or not.
set(tutti_all_components comm c tensor nn trainer lab)

function(tutti_package)
  if(NOT TUTTI_INSTALL)
    return()
  endif()
  set_target_properties(tutti_usage PROPERTIES EXPORT_NAME usage)
  tutti_install_targets(usage tutti_usage)
  if(TARGET tutti)
    set_property(GLOBAL APPEND PROPERTY tutti_installed tutti)
    install(TARGETS tutti RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT program)
  endif()
  add_custom_target(tutti_installed)  # builds all that `cmake --install` needs
  get_property(installed GLOBAL PROPERTY tutti_installed)
  add_dependencies(tutti_installed ${installed})
  get_property(components GLOBAL PROPERTY tutti_components)
  get_property(facts GLOBAL PROPERTY tutti_component_facts)

  set(template "${PROJECT_SOURCE_DIR}/tools/cmake/tutti-config.cmake.in")
  set(program_dir "${PROJECT_BINARY_DIR}/bin")
  configure_package_config_file("${template}" "${PROJECT_BINARY_DIR}/tutti-config.cmake"
    INSTALL_DESTINATION "${PROJECT_BINARY_DIR}" INSTALL_PREFIX "${PROJECT_BINARY_DIR}" PATH_VARS program_dir)
  set(program_dir "${CMAKE_INSTALL_BINDIR}")
  configure_package_config_file("${template}" "${PROJECT_BINARY_DIR}/install/tutti-config.cmake"
    INSTALL_DESTINATION "${tutti_package_dir}" PATH_VARS program_dir)
  write_basic_package_version_file("${PROJECT_BINARY_DIR}/tutti-config-version.cmake" COMPATIBILITY SameMinorVersion)
  install(FILES "${PROJECT_BINARY_DIR}/install/tutti-config.cmake" "${PROJECT_BINARY_DIR}/tutti-config-version.cmake"
          DESTINATION "${tutti_package_dir}" COMPONENT development)
endfunction()
