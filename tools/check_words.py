#!/usr/bin/env python3
"""Checks the words of comments: no thread, process or rank is a "who", and no core a "processor".

    tools/check_words.py [ROOT]

Prints "file:line: the word (what the field says instead)" for each finding in a comment of a .h or .cc file and ends with status 1
if there is one. ctest runs it as `words`. Folders and words stand in structure.py. Text in double quotes, which is quoted from
somewhere else, may say anything.
"""

import pathlib
import re
import sys

sys.dont_write_bytecode = True
from structure import REJECTED_WORDS, WORDS_CHECKED

# A raw string, a string, a character, or a comment: the first that begins is what the rest belongs to.
TOKEN = re.compile(
    r'R"(?P<end>[^(\s]*)\(.*?\)(?P=end)"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|(?P<comment>//[^\n]*|/\*.*?\*/)', re.DOTALL
)
QUOTED = re.compile(r'"[^"\n]*"')
# A file's name ("processors.h") and part of a name ("has_processor_") is no word.
REJECTED = re.compile(r"\b(" + "|".join(REJECTED_WORDS) + r")\b(?!\.\w)", re.IGNORECASE)


def findings(root):
    for folder in WORDS_CHECKED:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix not in {".h", ".cc"}:
                continue
            text = path.read_text(encoding="utf-8")
            for token in TOKEN.finditer(text):
                first = text.count("\n", 0, token.start()) + 1
                for number, line in enumerate((token["comment"] or "").splitlines(), first):
                    for word in REJECTED.findall(QUOTED.sub("", line)):
                        yield f"{name}:{number}: {word} ({REJECTED_WORDS[word.lower()]})"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    found = list(findings(root))
    print("\n".join(found) if found else f"words: {root} keeps the rules")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
