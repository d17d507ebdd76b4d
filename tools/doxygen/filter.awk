# What Doxygen reads of a header in place of the header: comments as they stand here, in the form that it knows.
#
#   // Work: a handle on one operation.      the comment that opens a file is the file's documentation, and its first
#   class Work {                             paragraph that of the class it names, unless that has one of its own
#   int rank;  // a comment behind a member  is the member's, with the lines under it
#
# Line numbers stay: for the line that is added at the top, the one with #pragma once goes.
NR == 1 && /^\/\// {
  print "/// \\file"
  in_head = in_first = 1
  if (match($0, /^\/\/ [A-Za-z0-9_]+: /)) {
    subject = substr($0, 4, RLENGTH - 5)
    text = substr($0, RLENGTH + 1)
  }
}
NR == 1 && /^\/\*/ { sub(/^\/\*/, " *"); print "/** \\file"; print; next }
in_head && !/^\/\// { in_head = 0 }
in_head && NR > 1 {
  if ($0 == "//") in_first = 0
  if (in_first) text = text substr($0, 3)
}
in_head { sub(/^\/\/   /, "//     "); sub(/^\/\//, "///"); print; next }  # deeper: an example
/^#pragma once/ { next }
/^[A-Za-z_][A-Za-z_0-9 ]*::~?[A-Za-z_]+\(.*\{/ { in_body = !/\}$/; print ""; next }  # a member's definition below its class
in_body { in_body = !/^\}/; print ""; next }
/^\/\/\/ .*<typename / { gsub(/</, "\\&lt;") }                # a declaration in words, no HTML

subject && /^(class|struct) / && !/;$/ && index($0 " ", " " subject " ") && last !~ /^\/\/\// {
  if (text !~ /^[a-z] /) text = toupper(substr(text, 1, 1)) substr(text, 2)
  print "/** " text " The comment of the file says more. */ " $0
  subject = ""
  next
}

# A declaration or an enumerator, indented no deeper than in a struct of a struct; no statement.
/^(  |    )?[A-Za-z~].*[;,}] +\/\/ / && !/\/\/ NOLINT/ && !/^ *(return|if|for|while|case|switch|else)[ (]/ {
  match($0, /[;,}] +\/\/ /)
  print substr($0, 1, RSTART + RLENGTH - 2) "/< " substr($0, RSTART + RLENGTH)
  behind = 1
  next
}
behind && /^          +\/\/ / { sub(/\/\/ /, "///< "); print; next }
{ behind = 0; last = $0; print }
