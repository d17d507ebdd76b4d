// The path under which rank 0 of a job publishes its address. Internal to comm.
//
// Pure functions of the environment that they are given.
#pragma once

#include <tutti/comm/bootstrap/world.h>

#include <string>

namespace tutti::comm {

/// The file for a job of this name: in TUTTI_MEET_DIR, else in <home>/.config/tutti/meet, beside the job secret, which
/// all hosts must see as well. Throws InvalidArgument if there is neither, or TUTTI_MEET_DIR is no absolute path.
std::string meeting_path(const std::string& job, const Environment& environment);

}  // namespace tutti::comm
