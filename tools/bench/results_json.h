// The JSON file of `tutti bench --json`.
//
// {"results":[{"op","ranks","transport","algorithm","registered","dtype","redop","bytes","count","iterations",
// "time_us":{"min","median","p99","max"},"algbw_gbps","busbw_gbps","wrong"}]}; a key that does not apply is null: the
// algorithm of a message or of one rank, the operator where nothing is reduced, the type of a barrier, `wrong` when
// nothing was compared. Pure.
#pragma once

#include <tutti/tools/bench/result.h>

#include <span>
#include <string>

namespace tutti::tools::bench {

std::string results_json(std::span<const Result> results);

}  // namespace tutti::tools::bench
