#include <tutti/comm/base/error.h>
#include <tutti/comm/bootstrap/launchers/meeting_name.h>
#include <tutti/comm/wire/handshake.h>
#include <tutti/comm/wire/printable.h>

#include <algorithm>

namespace tutti::comm {
namespace {

constexpr std::size_t kLongestName = 100;

std::string meeting_folder(const Environment& environment) {
  if (const auto folder = environment("TUTTI_MEET_DIR")) {
    if (folder->starts_with('/')) return *folder;
    throw Error(ErrorCode::InvalidArgument, "TUTTI_MEET_DIR=\"" + printable(*folder, 200) +
                                                "\" must be the whole path, from / on, of a folder that all hosts see");
  }
  const auto home = environment("HOME");
  if (home && !home->empty()) return *home + "/.config/tutti/meet";
  throw Error(ErrorCode::InvalidArgument,
              "the ranks have nowhere to meet: neither HOME nor TUTTI_MEET_DIR is set. Set TUTTI_MEET_DIR to a folder "
              "that all hosts see, or MASTER_ADDR and MASTER_PORT to where rank 0 is to listen");
}

/// A file's name that differs where the jobs' names do.
std::string file_name(const std::string& job) {
  std::string name = job.substr(0, kLongestName);
  std::replace_if(
      name.begin(), name.end(),
      [](char c) {
        return !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
                 c == '_' || c == '@' || c == '+');
      },
      '_');
  if (name != job || name.empty() || name.front() == '.') name = "job-" + name + "-" + hex(identity_hash(job));
  return name + ".meet";
}

}  // namespace

std::string meeting_path(const std::string& job, const Environment& environment) {
  return meeting_folder(environment) + "/" + file_name(job);
}

}  // namespace tutti::comm
