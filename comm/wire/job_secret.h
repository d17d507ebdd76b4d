// Where the secret that every connection proves comes from.
#pragma once

#include <tutti/comm/base/environment.h>

#include <string>

namespace tutti::comm {

/// 32 random bytes as 64 hex digits (OpenSSL's generator).
std::string new_job_secret();

/// TUTTI_JOB_SECRET if set; else what `~/.config/tutti/job_secret` holds, made on first use (mode 0600, created
/// atomically so that several ranks agree). Throws InvalidArgument if that file is readable by others or empty, with
/// the command that repairs it, and if it or its folder belongs to another user than this one and root. Warns of a
/// variable of fewer than 16 characters.
std::string job_secret(const Environment& environment = process_environment());

}  // namespace tutti::comm
