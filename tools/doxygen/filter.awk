# What Doxygen reads of a header in place of the header: comments as they stand here, in the form that it knows.
#
#   // The comment that opens a file        is the file's documentation
#   int rank;  // a comment behind a member  is the member's, with the lines under it
#
# Line numbers stay: for the line that is added at the top, the one with #pragma once goes.
NR == 1 && /^\/\// { print "/// \\file"; in_head = 1 }
NR == 1 && /^\/\*/ { sub(/^\/\*/, " *"); print "/** \\file"; print; next }
in_head && !/^\/\// { in_head = 0 }
in_head { sub(/^\/\/   /, "//     "); sub(/^\/\//, "///"); print; next }  # deeper: an example
/^#pragma once/ { next }

# A declaration or an enumerator, indented no deeper than in a struct of a struct; no statement.
/^(  |    )?[A-Za-z~].*[;,}] +\/\/ / && !/\/\/ NOLINT/ && !/^ *(return|if|for|while|case|switch|else)[ (]/ {
  match($0, /[;,}] +\/\/ /)
  print substr($0, 1, RSTART + RLENGTH - 2) "/< " substr($0, RSTART + RLENGTH)
  behind = 1
  next
}
behind && /^          +\/\/ / { sub(/\/\/ /, "///< "); print; next }
{ behind = 0; print }
