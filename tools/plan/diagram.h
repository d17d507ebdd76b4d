// A message diagram in text: ranks as columns, time downwards.
//
//                0     1     2     3
//        0.0 us  o----->     o----->   4 B
//                |     o----->     |   4 B
//                <-----------------o   4 B
//
// A line begins with the time at which its messages start; what starts at the same time and would overlap goes to the
// next line. "o" sends, an arrow head receives, and two heads exchange messages of one length.
//
// Thread-safety: pure function.
#pragma once

#include <tutti/comm/algorithms/simulator.h>

#include <string>
#include <vector>

namespace tutti::tools {

/// World sizes up to 16 fit a screen. Ends with a newline.
std::string diagram(std::vector<comm::Transfer> transfers, int world_size);

}  // namespace tutti::tools
