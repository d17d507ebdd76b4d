// What a lab is written against: `Ranks`, through which the ranks of a job exchange messages, and `Operator`.
//
// A solution is one source file with the function its lab asks for and, at the end, the macro that names it. It never
// sees what carries the messages: `tutti lab check` runs it on a network of the grader's, where every message passes
// before the grader's eyes; your own build runs it on a real ProcessGroup (comm/process_group.h), whose point-to-point
// calls have the same names and the same meaning, so that what works here can be carried over.
//
// Ownership: buffers belong to the caller. What isend() and irecv() were given must live, and must not be touched,
// until wait() has returned. Threads: one; labs have no use for more.
// Failure: a peer that does not exist, a message of another length than what was to be received, or a rank that is
// gone ends the run, on all ranks, with a text that says so. None of these calls returns an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace tutti::labs {

inline constexpr int kAnySource = -1;

class Ranks;

/// A message under way. Movable; wait() once.
class [[nodiscard]] Request {
 public:
  Request() = default;
  Request(Request&& other) noexcept
      : ranks_(std::exchange(other.ranks_, nullptr)), handle_(other.handle_), source_(other.source_) {}
  Request& operator=(Request&& other) noexcept {
    std::swap(ranks_, other.ranks_);
    std::swap(handle_, other.handle_);
    std::swap(source_, other.source_);
    return *this;
  }
  inline ~Request();  // without a wait(): the grader says so

  /// Blocks until the message has passed. Afterwards what isend() was given may be changed, and what irecv() was given
  /// holds the message. A second call returns at once.
  inline void wait();

  /// Whether wait() would return at once. Does not block, and does not take the place of wait().
  inline bool is_completed();

  /// Of an irecv, after wait(): the rank the message came from.
  int source() const { return source_; }

 private:
  friend class Ranks;
  Request(Ranks* ranks, std::uint64_t handle) : ranks_(ranks), handle_(handle) {}

  Ranks* ranks_ = nullptr;
  std::uint64_t handle_ = 0;
  int source_ = kAnySource;
};

/// This process among the others: its number, how many there are, and messages between two of them.
class Ranks {
 public:
  virtual ~Ranks() = default;
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return rank_; }              // 0 .. world_size() - 1
  int world_size() const { return world_size_; }  // number of ranks

  /// Blocks until `data` may be changed again. A short message may be buffered on its way (up to 64 KiB), and send()
  /// return before anybody receives; a long one waits for its receiver. Messages between two ranks with equal tags
  /// arrive in the order they were sent.
  template <typename T>
  void send(std::span<T> data, int destination, int tag = 0) {
    do_send(memory_of(data), destination, tag);
  }

  /// Blocks until a message with `tag` from `source` (kAnySource: from anybody) has filled `data`, whose length must be
  /// the message's. Returns the rank it came from.
  template <typename T>
  int recv(std::span<T> data, int source = kAnySource, int tag = 0) {
    return do_recv(writable(data), source, tag);
  }

  /// Begins to send; returns at once, whatever the length.
  template <typename T>
  Request isend(std::span<T> data, int destination, int tag = 0) {
    return {this, do_isend(memory_of(data), destination, tag)};
  }

  /// Begins to receive; returns at once.
  template <typename T>
  Request irecv(std::span<T> data, int source = kAnySource, int tag = 0) {
    return {this, do_irecv(writable(data), source, tag)};
  }

  /// send() and recv() at the same time: no order among the ranks can make them wait for each other. The buffers must
  /// not overlap. Returns the rank the message came from.
  template <typename T, typename U>
  int sendrecv(std::span<T> outgoing, int destination, std::span<U> incoming, int source = kAnySource, int send_tag = 0,
               int recv_tag = 0) {
    return do_sendrecv(memory_of(outgoing), destination, writable(incoming), source, send_tag, recv_tag);
  }

  /// Time since some moment in the past, in seconds, for taking differences on one rank: the network's own (virtual)
  /// time in `tutti lab check`, real time in your own build.
  double seconds() { return do_seconds(); }

  /// Bytes with the size of an element, as the backends see data.
  struct ConstMemory {
    const void* data = nullptr;
    std::size_t bytes = 0;
    std::size_t element_bytes = 1;
  };
  struct Memory {
    void* data = nullptr;
    std::size_t bytes = 0;
    std::size_t element_bytes = 1;
  };

 protected:
  Ranks(int rank, int world_size) : rank_(rank), world_size_(world_size) {}

 private:
  friend class Request;

  // What carries the messages.
  virtual void do_send(ConstMemory data, int destination, int tag) = 0;
  virtual int do_recv(Memory data, int source, int tag) = 0;
  virtual std::uint64_t do_isend(ConstMemory data, int destination, int tag) = 0;
  virtual std::uint64_t do_irecv(Memory data, int source, int tag) = 0;
  virtual int do_sendrecv(ConstMemory outgoing, int destination, Memory incoming, int source, int send_tag,
                          int recv_tag) = 0;
  virtual int do_wait(std::uint64_t request) = 0;  // the source
  virtual bool is_complete(std::uint64_t request) = 0;
  virtual void do_forget(std::uint64_t request) noexcept = 0;  // destroyed without a wait
  virtual double do_seconds() = 0;

  template <typename T>
  static ConstMemory memory_of(std::span<T> data) {
    static_assert(std::is_trivially_copyable_v<T>, "messages are made of plain values");
    return {data.data(), data.size_bytes(), sizeof(T)};
  }
  template <typename T>
  static Memory writable(std::span<T> data) {
    static_assert(!std::is_const_v<T>, "cannot receive into a span of const elements");
    static_assert(std::is_trivially_copyable_v<T>, "messages are made of plain values");
    return {data.data(), data.size_bytes(), sizeof(T)};
  }

  int rank_;
  int world_size_;
};

Request::~Request() {
  if (ranks_ != nullptr) ranks_->do_forget(handle_);
}
void Request::wait() {
  if (ranks_ != nullptr) source_ = std::exchange(ranks_, nullptr)->do_wait(handle_);
}
bool Request::is_completed() { return ranks_ == nullptr || ranks_->is_complete(handle_); }

/// How elements are combined: sum, product, minimum, maximum, or another operator. It is associative and commutative:
/// elements may be combined in any order.
template <typename T>
class Operator {
 public:
  using Combine = void (*)(void* context, T* into, const T* from, std::size_t count);
  Operator(Combine combine, void* context) : combine_(combine), context_(context) {}

  /// into[i] = into[i] (+) from[i]. The spans must have the same length; they must not overlap.
  void operator()(std::span<T> into, std::span<const T> from) const {
    if (into.size() != from.size()) {
      throw std::invalid_argument("the operator was given " + std::to_string(into.size()) +
                                  " elements to combine with " + std::to_string(from.size()));
    }
    combine_(context_, into.data(), from.data(), into.size());
  }

 private:
  Combine combine_;
  void* context_;
};

// --- How a solution names its function. Everything below is the grader's business. -----------------------------------

namespace detail {

enum class ElementType : std::uint8_t { Float32, Float64, Int32, Int64, UInt8, UInt64 };

template <typename T>
inline constexpr ElementType kElementType = std::is_same_v<T, float>          ? ElementType::Float32
                                            : std::is_same_v<T, double>       ? ElementType::Float64
                                            : std::is_same_v<T, std::int32_t> ? ElementType::Int32
                                            : std::is_same_v<T, std::int64_t> ? ElementType::Int64
                                            : std::is_same_v<T, std::uint8_t> ? ElementType::UInt8
                                                                              : ElementType::UInt64;

/// One call of the solution's function, as whoever runs it has prepared it.
struct Call {
  int root = 0;
  std::uint64_t parameter = 0;  // what else a lab's function takes
  std::vector<Ranks::Memory> buffers{};
  void* operation = nullptr;  // Operator<T> of the call's type, or null

  template <typename T>
  std::span<T> buffer(std::size_t index) const {
    return {static_cast<T*>(buffers.at(index).data), buffers.at(index).bytes / sizeof(T)};
  }
  template <typename T>
  const Operator<T>& op() const {
    return *static_cast<const Operator<T>*>(operation);
  }
};

using Run = void (*)(Ranks& ranks, Call& call);

/// A function of the solution's for one element type; they form a list.
struct Registration {
  Registration(const char* of_function, ElementType of_type, Run how);
  const char* function;
  ElementType type;
  Run run;
  const Registration* next;
};
inline const Registration* registrations = nullptr;

inline Registration::Registration(const char* of_function, ElementType of_type, Run how)
    : function(of_function), type(of_type), run(how), next(std::exchange(registrations, this)) {}

/// `Form<T>::run` for every element type.
template <template <typename> class Form>
struct Registered {
  explicit Registered(const char* function)
      : f32(function, ElementType::Float32, Form<float>::run),
        f64(function, ElementType::Float64, Form<double>::run),
        i32(function, ElementType::Int32, Form<std::int32_t>::run),
        i64(function, ElementType::Int64, Form<std::int64_t>::run),
        u8(function, ElementType::UInt8, Form<std::uint8_t>::run),
        u64(function, ElementType::UInt64, Form<std::uint64_t>::run) {}
  Registration f32, f64, i32, i64, u8, u64;
};

/// For functions without data.
template <typename Form>
struct RegisteredOnce : Registration {
  explicit RegisteredOnce(const char* of_function) : Registration(of_function, ElementType::UInt8, Form::run) {}
};

}  // namespace detail
}  // namespace tutti::labs

#define TUTTI_LAB_FORM_(NAME, CALL)                                                                            \
  namespace {                                                                                                  \
  template <typename T>                                                                                        \
  struct TuttiForm_##NAME {                                                                                    \
    static void run([[maybe_unused]] ::tutti::labs::Ranks& ranks, ::tutti::labs::detail::Call& call) { CALL; } \
  };                                                                                                           \
  const ::tutti::labs::detail::Registered<TuttiForm_##NAME> tutti_lab_##NAME(#NAME);                           \
  }

#define TUTTI_LAB_ONCE_(NAME, CALL)                                                      \
  namespace {                                                                            \
  struct TuttiForm_##NAME {                                                              \
    static void run([[maybe_unused]] ::tutti::labs::Ranks& ranks,                        \
                    [[maybe_unused]] ::tutti::labs::detail::Call& call) {                \
      CALL;                                                                              \
    }                                                                                    \
  };                                                                                     \
  const ::tutti::labs::detail::RegisteredOnce<TuttiForm_##NAME> tutti_lab_##NAME(#NAME); \
  }

/// template <typename T> void F(Ranks& ranks, std::span<T> data, int root);
#define TUTTI_LAB_BROADCAST(F) TUTTI_LAB_FORM_(broadcast, F<T>(ranks, call.buffer<T>(0), call.root))

/// template <typename T> void F(Ranks& ranks, std::span<const T> input, std::span<T> output, const Operator<T>& op,
///                              int root);
#define TUTTI_LAB_REDUCE(F) \
  TUTTI_LAB_FORM_(reduce, F<T>(ranks, call.buffer<const T>(0), call.buffer<T>(1), call.op<T>(), call.root))

/// template <typename T> void F(Ranks& ranks, std::span<T> data, const Operator<T>& op);
#define TUTTI_LAB_ALL_REDUCE(F) TUTTI_LAB_FORM_(all_reduce, F<T>(ranks, call.buffer<T>(0), call.op<T>()))

/// template <typename T> void F(Ranks& ranks, std::span<const T> outgoing, std::span<T> incoming);
/// Rank r's `incoming` becomes rank r - 1's `outgoing`; rank 0's becomes the last rank's.
#define TUTTI_LAB_SHIFT(F) TUTTI_LAB_FORM_(shift, F<T>(ranks, call.buffer<const T>(0), call.buffer<T>(1)))

/// template <typename T> void F(Ranks& ranks, std::span<const std::span<T>> tensors, const Operator<T>& op,
///                              std::size_t bucket_bytes);
#define TUTTI_LAB_ALL_REDUCE_MANY(F)                                                                          \
  TUTTI_LAB_FORM_(all_reduce_many, std::vector<std::span<T>> tensors;                                         \
                  for (std::size_t i = 0; i < call.buffers.size(); ++i) tensors.push_back(call.buffer<T>(i)); \
                  F<T>(ranks, std::span<const std::span<T>>(tensors), call.op<T>(), call.parameter))

/// void F(Ranks& ranks);
#define TUTTI_LAB_BARRIER(F) TUTTI_LAB_ONCE_(barrier, F(ranks))
