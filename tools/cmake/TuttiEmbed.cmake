# Text files as C++: cmake -DOUT=file.cc -DFUNCTION=tutti::labs::exercise_files -DROOT=folder "-DFILES=a|b" -P TuttiEmbed.cmake
# As a module it gives tutti_embed(OUT FUNCTION ROOT FILES...), which runs that at build time when a file has changed.

if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(TUTTI_EMBED_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")
  function(tutti_embed out function root)
    set(paths ${ARGN})
    list(TRANSFORM paths PREPEND "${root}/")
    list(JOIN ARGN "|" names)
    add_custom_command(OUTPUT "${out}"
      COMMAND "${CMAKE_COMMAND}" "-DOUT=${out}" "-DFUNCTION=${function}" "-DROOT=${root}" "-DFILES=${names}"
              -P "${TUTTI_EMBED_SCRIPT}"
      DEPENDS ${paths} "${TUTTI_EMBED_SCRIPT}" VERBATIM COMMENT "Embedding the files of ${function}()")
  endfunction()
  return()
endif()

string(REPLACE "|" ";" FILES "${FILES}")
set(text "// Made by tools/cmake/TuttiEmbed.cmake.\n#include <tutti/tools/labs/embedded.h>\n\n")
string(APPEND text "std::span<const tutti::labs::EmbeddedFile> ${FUNCTION}() {\n  static constexpr tutti::labs::EmbeddedFile kFiles[] = {\n")
foreach(name IN LISTS FILES)
  file(READ "${ROOT}/${name}" content)
  string(APPEND text "    {\"${name}\", R\"tutti_file(${content})tutti_file\"},\n")
endforeach()
string(APPEND text "  };\n  return kFiles;\n}\n")
file(WRITE "${OUT}" "${text}")
