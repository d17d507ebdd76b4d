// FileMembers: which ranks are at a store's file, which have left in good order and which have died. Internal to
// comm/store.
//
// "tutti/file/joined/<rank>" says as which process a rank has come, "tutti/file/here/<rank>" how many stores it has
// open; whether that process still lives its hold on the file tells (StoreFile::present). Who asks for the keys
// "tutti/lost" and "tutti/lost/<rank>" (tcp_store_server.h) finds out, and sets them.
//
// Thread-safety: as FileMap.
#pragma once

#include <tutti/comm/store/file_map.h>

#include <span>
#include <string>
#include <vector>

namespace tutti::comm {

class FileMembers {
 public:
  /// Both must outlive it.
  FileMembers(FileMap& values, const FileStoreOptions& options) : values_(values), options_(options) {}

  /// Throws Unauthorized if another process has come as this rank. False if the last rank of those who were here has
  /// just removed the file.
  bool join(Deadline deadline);

  /// The last rank to leave in good order takes the file with it.
  void leave(Deadline deadline);

  /// If the keys tell of lost ranks: sets those of ranks whose process has died without a goodbye.
  void mark_lost(std::span<const std::string> keys, Deadline deadline);

 private:
  std::vector<int> newly_lost(const KeyMap& map, const std::vector<int>& asked) const;
  std::string lost_ranks(const KeyMap& map) const;
  bool everybody_has_left(const KeyMap& map) const;
  [[noreturn]] void throw_stale(const std::string& other) const;

  FileMap& values_;
  const FileStoreOptions& options_;
};

}  // namespace tutti::comm
