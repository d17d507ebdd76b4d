// Files that are complete or absent: the few system calls behind checkpoints and reports.
//
// All functions throw std::system_error (a std::runtime_error) with the path and errno's words. The order of calls in
// checkpoint.cc is what makes a checkpoint of several files complete or absent.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace tutti::trainer {

std::string read_whole_file(const std::filesystem::path& file);

/// Makes renames and new names in `folder` survive a power failure.
void sync_folder(const std::filesystem::path& folder);

/// Writes an OutputFile (comm/base/output_file.h): a reader sees the old contents or the new, never a mixture, and the
/// bytes are on the disk when this returns; "-" is standard output.
void replace_file(const std::filesystem::path& file, std::string_view bytes);

/// Throws unless a file of this name could be written: the folder exists and lets us create names in it. Creates
/// nothing that stays.
void check_writable(const std::filesystem::path& file);

}  // namespace tutti::trainer
