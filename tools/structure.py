"""How the source tree is built: which layer stands on which, the storeys inside a layer, how many lines each folder may have, and
which words its comments do without.

check_layers.py, check_budget and check_words.py read it here. The words are DESIGN's: a layer is a folder of the top level, a storey a folder of
a layer.
"""

# A layer's folder -> the layers whose headers it may include.
ALLOWED = {
    "comm": {"comm"},
    "tensor": {"tensor"},
    "nn": {"nn", "tensor"},
    "trainer": {"trainer", "nn", "tensor", "comm"},
    "tools": {"tools", "trainer", "nn", "tensor", "comm"},
}

# A layer's folders from the lowest up; each may include those before it. "" is the layer's own folder. A file that stands on
# another storey than its folder's is listed by name.
STOREYS = {
    "comm": ["base", "reduce", "wire", "store", "transport", "bootstrap", "failure", "schedule", "algorithms", "shared",
             "point_to_point", "", "c", "python"],
}
STOREY_OF_FILE = {"comm/work.h": "base"}  # public, and on nothing

# Lines of C++ and CUDA with comments (*.h *.cc *.cu *.cuh). A folder that needs more makes room by removing something.
BUDGET = {
    "comm": 24500,
    "tensor": 15000,
    "nn": 2600,
    "trainer": 14000,
    "tools": 12500,  # without labs
    "tools/labs": 9500,
    "bench": 2300,
    "tests": 42000,
}

# Folders whose comments check_words.py reads.
WORDS_CHECKED = ["comm"]

# A word that no comment has -> what it says instead.
ACTOR = "a thread, process or rank has a name: the thread that ..., the caller, the peer"
NONE_OR_ALL = "no rank, every rank, any thread, another process"
REJECTED_WORDS = {
    **dict.fromkeys(["who", "whom", "whoever"], ACTOR),
    **dict.fromkeys(["somebody", "nobody", "everybody", "anybody"], NONE_OR_ALL),
    **dict.fromkeys(["processor", "processors"], "CPU or core"),
    "news": "update, event or message",
}
