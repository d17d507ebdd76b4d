#include <sched.h>
#include <tutti/comm/base/error.h>
#include <tutti/tests/support/faulty_transport.h>

#include <algorithm>
#include <atomic>
#include <deque>

namespace tutti::comm {
namespace {

using Lane = ConnectionReset::Lane;
using Clock = std::chrono::steady_clock;

/// splitmix64 (Steele, Lea, Flood 2014): one addition and a finaliser, so any start gives a good sequence.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t limit) { return next() % limit; }
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  std::uint64_t state_;
};

class World final : public FaultyWorld {
 public:
  World(const FaultyOptions& options, std::vector<std::weak_ptr<Transport>> ranks)
      : options_(options), ranks_(std::move(ranks)) {}

  std::optional<Clock::time_point> reset_at() const override {
    if (!broken_.load(std::memory_order_acquire)) return std::nullopt;
    return reset_at_;
  }

  std::uint64_t seed() const { return options_.seed; }

  bool breaks(int from, int to, Lane lane) const {
    if (!options_.reset || options_.reset->lane != lane) return false;
    const auto& reset = *options_.reset;
    return (from == reset.one && to == reset.other) || (from == reset.other && to == reset.one);
  }

  /// The connection that breaks carries one frame more; false if it breaks now instead, or has.
  bool carry() {
    if (carried_.fetch_add(1) < options_.reset->after_frames) return true;
    if (claimed_.exchange(true)) return false;
    reset_at_ = Clock::now();
    broken_.store(true, std::memory_order_release);
    for (const int rank : {options_.reset->one, options_.reset->other})
      if (const auto transport = ranks_[static_cast<std::size_t>(rank)].lock()) transport->wake();
    return false;
  }

  bool broken() const { return broken_.load(std::memory_order_acquire); }
  bool loses_data() const { return options_.reset->lose_data; }

 private:
  const FaultyOptions options_;
  const std::vector<std::weak_ptr<Transport>> ranks_;
  std::atomic<std::uint64_t> carried_{0};
  std::atomic<bool> claimed_{false};
  Clock::time_point reset_at_;  // written before broken_
  std::atomic<bool> broken_{false};
};

class FaultyLink final : public Link {
 public:
  /// `breaks`: it is an end of the connection that will be reset.
  FaultyLink(Link& inner, std::shared_ptr<World> world, std::uint64_t seed, bool breaks, std::string peer)
      : inner_(inner), world_(std::move(world)), breaks_(breaks), peer_(std::move(peer)), out_(seed), in_(~seed) {}

  int peer() const override { return inner_.peer(); }

  void post(Outgoing& frame) override {
    frame.written_ = 0;
    queue_.push_back({&frame, {frame.header, frame.payload}});
    flush();
  }

  bool flush() override {
    if (is_broken()) lost();
    bool left = true;
    while (!queue_.empty() && (left = advance(queue_.front()))) queue_.pop_front();
    holds_back_output_ = !left;
    return left;
  }

  const FrameHeader* peek() override {
    check_readable();
    return show(inner_.peek());
  }

  std::size_t read(void* into, std::size_t nbytes) override {
    check_readable();
    std::size_t wanted = std::min<std::uint64_t>(nbytes, payload_left_);
    holds_back_input_ = wanted > 0 && in_.one_in(4);
    if (holds_back_input_) return 0;
    if (wanted > 0 && !in_.one_in(3)) wanted = 1 + in_.below(wanted);
    const std::size_t got = inner_.read(into, wanted);
    payload_left_ -= got;
    if (payload_left_ == 0) {
      shown_ = false;
      delay_.reset();
    }
    return got;
  }

  Link& inner() { return inner_; }
  bool is_broken() const { return breaks_ && world_->broken(); }
  /// Whether asking again may help without anything new from the peer.
  bool is_impatient() const { return holds_back_input_ || holds_back_output_ || is_broken(); }

 private:
  struct Posted {
    Outgoing* frame;
    Outgoing inner;
    bool handed_on = false;
  };

  [[noreturn]] void lost() const { throw Error(ErrorCode::PeerLost, "lost " + peer_ + ": connection reset"); }
  void check_readable() const {
    if (is_broken() && world_->loses_data()) lost();
  }

  /// Null while the frame at the head is held back.
  const FrameHeader* show(const FrameHeader* header) {
    if (!header && is_broken()) lost();
    holds_back_input_ = header && !shown_ && holds_back();
    if (!header || holds_back_input_) return nullptr;
    if (!shown_) payload_left_ = header->nbytes;
    shown_ = true;
    return header;
  }

  /// Most frames come at once, some later, a few much later than those of other links.
  bool holds_back() {
    if (!delay_) delay_ = in_.one_in(2) ? 0 : in_.one_in(8) ? in_.below(100) : in_.below(6);
    if (*delay_ == 0) return false;
    --*delay_;
    return true;
  }

  /// True when the frame has left.
  bool advance(Posted& posted) {
    const std::uint64_t total = posted.inner.bytes();
    while (!posted.handed_on) {
      if (out_.one_in(3)) return false;
      posted.frame->written_ += out_.one_in(2) ? total : 1 + out_.below(total);
      if (posted.frame->written_ < total) continue;
      posted.frame->written_ = total - 1;
      if (breaks_ && !world_->carry()) {
        if (!world_->loses_data()) lost();
        posted.frame->written_ = total;  // into the kernel's buffer, which is emptied now
        return true;
      }
      posted.inner.payload = posted.frame->payload;
      posted.handed_on = true;
      inner_.post(posted.inner);
    }
    posted.inner.payload = posted.frame->payload;
    inner_.flush();
    if (!posted.inner.done()) return false;
    posted.frame->written_ = total;
    return true;
  }

  Link& inner_;
  const std::shared_ptr<World> world_;
  const bool breaks_;
  const std::string peer_;
  Dice out_;
  Dice in_;
  std::deque<Posted> queue_;  // a deque: inner frames stay in place
  bool shown_ = false;
  std::optional<std::uint64_t> delay_;  // calls of peek() until the frame at the head is shown
  std::uint64_t payload_left_ = 0;
  std::atomic<bool> holds_back_input_{false};
  std::atomic<bool> holds_back_output_{false};
};

class FaultyTransport final : public Transport {
 public:
  FaultyTransport(std::shared_ptr<Transport> inner, std::shared_ptr<World> world)
      : inner_(std::move(inner)), world_(std::move(world)) {
    const int self = inner_->rank();
    for (int peer = 0; peer < inner_->world_size(); ++peer) {
      const auto wrap = [&](std::deque<FaultyLink>& links, std::uint64_t lane, Link& link, bool breaks) {
        Dice dice(world_->seed());
        dice = Dice(dice.next() + static_cast<std::uint64_t>(self));
        dice = Dice(dice.next() + static_cast<std::uint64_t>(peer));
        dice = Dice(dice.next() + lane);
        links.emplace_back(link, world_, dice.next(), breaks, inner_->describe(peer));
      };
      wrap(collective_, 0, inner_->collective(peer), world_->breaks(self, peer, Lane::Collective));
      wrap(messages_, 1, inner_->messages(peer), world_->breaks(self, peer, Lane::Messages));
      wrap(answers_, 2, inner_->answers(peer), world_->breaks(self, peer, Lane::Answers));
    }
  }
  ~FaultyTransport() override { inner_->close(); }

  int rank() const override { return inner_->rank(); }
  int world_size() const override { return inner_->world_size(); }
  Link& collective(int peer) override { return collective_[static_cast<std::size_t>(peer)]; }
  Link& messages(int peer) override { return messages_[static_cast<std::size_t>(peer)]; }
  Link& answers(int peer) override { return answers_[static_cast<std::size_t>(peer)]; }
  bool service() override { return inner_->service(); }

  void wait(std::span<Link* const> links, std::chrono::milliseconds timeout) override {
    std::vector<Link*> inner;
    bool early = Dice(world_->seed() + waits_.fetch_add(1)).one_in(8);
    for (Link* link : links) {
      auto* faulty = static_cast<FaultyLink*>(link);
      early = early || faulty->is_impatient();
      inner.push_back(&faulty->inner());
    }
    if (early) {
      ::sched_yield();
    } else {
      inner_->wait(inner, timeout);
    }
  }

  void wake() override { inner_->wake(); }
  void close() override { inner_->close(); }
  std::string describe(int peer) const override { return inner_->describe(peer); }
  bool oversubscribed() const override { return inner_->oversubscribed(); }
  std::string_view name() const override { return inner_->name(); }
  std::vector<int> hosts() const override { return inner_->hosts(); }

 private:
  const std::shared_ptr<Transport> inner_;
  const std::shared_ptr<World> world_;
  std::atomic<std::uint64_t> waits_{0};
  std::deque<FaultyLink> collective_;
  std::deque<FaultyLink> messages_;
  std::deque<FaultyLink> answers_;
};

}  // namespace

FaultyTransports make_faulty_transports(std::vector<std::unique_ptr<Transport>> ranks, const FaultyOptions& options) {
  std::vector<std::shared_ptr<Transport>> inner;
  for (auto& rank : ranks) inner.push_back(std::move(rank));
  auto world = std::make_shared<World>(options, std::vector<std::weak_ptr<Transport>>(inner.begin(), inner.end()));
  FaultyTransports result{{}, world};
  for (auto& rank : inner) result.ranks.push_back(std::make_unique<FaultyTransport>(std::move(rank), world));
  return result;
}

}  // namespace tutti::comm
