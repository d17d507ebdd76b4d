// AgentStore: a key of the store that torchrun's agent serves at MASTER_ADDR:MASTER_PORT, in which rank 0 publishes an
// Announcement. Speaks the part of PyTorch's protocol (store/torch) that this takes; PyTorch 2.1 or later.
//
// The agent's store knows no secret, so nothing secret is put there: an announcement is signed with the job secret, and
// a client without it can only remove the announcement.
// Thread-safety: none. Each call opens a connection, and waits for a few seconds at most.
#pragma once

#include <tutti/comm/bootstrap/announcement.h>
#include <tutti/comm/bootstrap/world.h>

#include <optional>
#include <string>

namespace tutti::comm {

class AgentStore final : public AnnouncementBoard {
 public:
  explicit AgentStore(const World& world);  // its master_addr, master_port, agent_key

  void publish(const Announcement& announcement) override;
  std::optional<Found> look() const override;
  void withdraw(const std::string& nonce) noexcept override;
  std::string where() const override;
  std::string advice() const override;

 private:
  std::string exchange(const std::string& query) const;
  std::string compare_set(const std::string& expected, const std::string& desired) const;

  const std::string host_;
  const std::uint16_t port_;
  const std::string key_;
  const std::string secret_;
};

}  // namespace tutti::comm
