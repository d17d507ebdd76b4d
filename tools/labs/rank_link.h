// RankLink: the referee's end of the conversation with one rank: its process, the bytes that come and go, its output.
//
// Nothing here blocks. Threads: one. Whatever comes from the process is checked before memory is taken for it.
#pragma once

#include <tutti/tools/labs/driver/protocol.h>
#include <tutti/tools/labs/network.h>
#include <tutti/tools/labs/sandbox/confined_process.h>

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>

namespace tutti::labs {

inline constexpr std::size_t kMostPayload = std::size_t{64} << 20;  // of one request
inline constexpr std::size_t kMostOutput = std::size_t{256} << 10;  // that a rank may write
inline constexpr std::size_t kKeptOutput = std::size_t{4} << 10;    // of it that is shown

class RankLink {
 public:
  RankLink(const std::filesystem::path& program, const std::filesystem::path& empty_folder, const Limits& limits);

  ConfinedProcess& process() { return process_; }

  // --- For poll(). ---
  bool has_unsent() const { return sent_ < outgoing_.size(); }
  bool is_output_open() const { return is_output_open_; }

  void read_output();  // what there is
  std::size_t output_bytes() const { return output_bytes_; }
  const std::string& output() const { return output_; }

  void queue(const void* data, std::size_t bytes);  // sent by flush(), as the process reads
  void flush();

  /// Takes in what has come. False when the process has closed its end, or broken the protocol.
  bool receive();
  bool is_broken() const { return is_broken_; }  // what came is no request

  struct Message {
    protocol::Request request{};
    Bytes payload{};
  };
  /// The next whole request.
  std::optional<Message> next();

 private:
  ConfinedProcess process_;
  Bytes incoming_;
  std::size_t taken_ = 0;
  Bytes outgoing_;
  std::size_t sent_ = 0;
  std::string output_;
  std::size_t output_bytes_ = 0;
  bool is_output_open_ = true;
  bool is_broken_ = false;
};

}  // namespace tutti::labs
