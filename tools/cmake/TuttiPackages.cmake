# Debian packages by CPack, from this project's own build alone:
#
#   cmake --preset package && cmake --build --preset package && cpack --preset package
#
# tutti (the program), libtutti (shared libraries), libtutti-dev (headers, static libraries, packages for CMake, pkg-config and
# Python, examples). What they depend on is read off the binaries by dpkg-shlibdeps (Debian: dpkg-dev).
if(NOT TUTTI_INSTALL OR NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

set(packaged development)
if(TARGET tutti)
  list(PREPEND packaged program)
  install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/tutti" RENAME copyright COMPONENT program)
endif()
get_property(shows_shared_libraries GLOBAL PROPERTY tutti_shared_libraries)
if(shows_shared_libraries)
  list(APPEND packaged runtime)
  install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/libtutti" RENAME copyright COMPONENT runtime)
endif()
install(FILES LICENSE DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/libtutti-dev" RENAME copyright COMPONENT development)
if(TARGET tutti_c)
  install(DIRECTORY comm/python/tutti DESTINATION lib/python3/dist-packages COMPONENT development PATTERN "__pycache__" EXCLUDE)
  install(FILES tools/examples/python/all_reduce.py
          DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/libtutti-dev/examples/python" COMPONENT development)
endif()
install(DIRECTORY tools/examples/embedding/ DESTINATION "${CMAKE_INSTALL_DATADIR}/doc/libtutti-dev/examples"
        COMPONENT development)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME tutti)
set(CPACK_PACKAGE_VENDOR "Tutti")
set(CPACK_PACKAGE_CONTACT "The Tutti authors <maintainers@tutti.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL ${packaged})
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME tutti)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION science)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION
    "launcher, trainer and benchmarks of Tutti\n Starts programs as ranks of a job, trains networks data-parallel, measures collectives.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME libtutti)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_COMPONENT_RUNTIME_DESCRIPTION "shared libraries of Tutti\n Collective communication between processes, for programs in C++ and by a C API.")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libtutti-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION
    "development files of Tutti\n Headers, libraries, and packages for CMake and pkg-config; examples of embedding.")
# Who links static libraries links what is under them.
if(NOT BUILD_SHARED_LIBS)
  set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS "libssl-dev")
  if(NOT TUTTI_COMM_ONLY)
    string(APPEND CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS ", zlib1g-dev, libpng-dev, libjpeg-dev, libtiff-dev")
  endif()
endif()
if(shows_shared_libraries)
  set(CPACK_COMPONENT_DEVELOPMENT_DEPENDS runtime)
  if(BUILD_SHARED_LIBS)
    set(CPACK_COMPONENT_PROGRAM_DEPENDS runtime)
    set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS
        "${PROJECT_BINARY_DIR}/comm" "${PROJECT_BINARY_DIR}/tensor" "${PROJECT_BINARY_DIR}/nn"
        "${PROJECT_BINARY_DIR}/trainer" "${PROJECT_BINARY_DIR}/trainer/data")
  endif()
endif()
include(CPack)
