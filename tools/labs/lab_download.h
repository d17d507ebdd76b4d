// For the lab `download`: processes on several nodes, and the folder that they want a file in.
//
// Under the grader the folder is a model: a process of the grader's own keeps its files, and every call is a message
// to it, so that downloads take time, other processes come in between, and a job can be killed in the middle.
#pragma once

#include <tutti/tools/labs/lab.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tutti::labs {

namespace detail::download {

enum class Verb : std::uint64_t { Exists, Create, Remove, Rename, Begin, Append, Barrier, Read, Restart, Done };

inline constexpr std::size_t kLongestName = 63;
inline constexpr int kTag = 7'100'000;
inline constexpr std::uint64_t kChunks = 8;  // of the data set
inline constexpr std::size_t kChunkBytes = 32 * 1024;
inline constexpr std::uint64_t kPatience = 5000;  // calls of all processes, until a run is given up

struct Request {
  Verb verb = Verb::Exists;
  std::uint64_t node = 0;
  std::uint64_t file = 0;  // Append: what Begin answered
  std::array<char, kLongestName + 1> name{};
  std::array<char, kLongestName + 1> second{};
};

struct Reply {
  std::uint64_t value = 0;
  std::uint64_t is_killed = 0;
};

/// What ends prepare() when the job is killed: nothing that a program would see.
struct Killed {};

/// The case, as all processes are told it.
struct Settings {
  std::uint64_t workers = 1, nodes = 1, is_shared = 1;
  std::uint64_t present = 0;     // bit n: node n (or the shared folder, n = 0) has the file already
  std::uint64_t kill_after = 0;  // chunks until the job is killed, and started again; 0: never
};

/// What happened, as the keeper of the files tells it.
struct Outcome {
  std::uint64_t downloads = 0, needed = 0;         // of all runs; folders without the file when a run began
  std::uint64_t missing = 0, half = 0, mixed = 0;  // reads of no file, of part of one, of one with two writers
  std::uint64_t given_up = 0, was_killed = 0, calls = 0;
  std::uint64_t first_bad_rank = 0;
};

/// A process's line to the keeper, who is the last rank.
class Line {
 public:
  Line(Ranks& ranks, std::uint64_t node) : ranks_(ranks), node_(node) {}

  std::uint64_t ask(Verb verb, const std::string& name = {}, const std::string& second = {}, std::uint64_t file = 0) {
    Request request;
    request.verb = verb;
    request.node = node_;
    request.file = file;
    put(name, request.name);
    put(second, request.second);
    const int keeper = ranks_.world_size() - 1;
    ranks_.send(std::span<const Request>(&request, 1), keeper, kTag);
    if (verb == Verb::Append) {
      const std::vector<unsigned char> chunk(kChunkBytes);
      ranks_.send(std::span<const unsigned char>(chunk), keeper, kTag + 1);
    }
    Reply reply;
    ranks_.recv(std::span<Reply>(&reply, 1), keeper, kTag);
    if (reply.is_killed != 0) throw Killed{};
    return reply.value;
  }

 private:
  static void put(const std::string& name, std::array<char, kLongestName + 1>& where) {
    if (name.size() > kLongestName) throw std::invalid_argument("the name of a file is too long: " + name);
    std::memcpy(where.data(), name.c_str(), name.size());
  }

  Ranks& ranks_;
  std::uint64_t node_;
};

}  // namespace detail::download

/// This process among those of its job, as the launcher's variables say.
class Job {
 public:
  int rank() const { return rank_; }              // RANK, SLURM_PROCID
  int world_size() const { return world_size_; }  // WORLD_SIZE, SLURM_NTASKS
  int local_rank() const { return local_rank_; }  // LOCAL_RANK, SLURM_LOCALID: 0, 1, ... on each node

  /// Returns when all processes of the job have called it.
  void barrier() { line_.ask(detail::download::Verb::Barrier); }

  Job(int rank, int world_size, int local_rank, detail::download::Line& line)
      : rank_(rank), world_size_(world_size), local_rank_(local_rank), line_(line) {}

 private:
  int rank_, world_size_, local_rank_;
  detail::download::Line& line_;
};

/// The folder for the data: one for all nodes, or one on each.
class Folder {
 public:
  /// One file system that all nodes see; else each node has its own, which only its processes see.
  bool is_shared() const { return is_shared_; }

  bool exists(const std::string& name) { return line_.ask(detail::download::Verb::Exists, name) != 0; }

  /// Downloads the data set into the file `name`. It takes a while, in which the file is there and grows. A file of
  /// that name is overwritten.
  void download(const std::string& name) {
    using detail::download::Verb;
    const std::uint64_t file = line_.ask(Verb::Begin, name);
    for (std::uint64_t chunk = 0; chunk < detail::download::kChunks; ++chunk) line_.ask(Verb::Append, {}, {}, file);
  }

  /// In one moment: before it `to` is what it was, after it what `from` was.
  void rename(const std::string& from, const std::string& to) { line_.ask(detail::download::Verb::Rename, from, to); }

  /// Makes an empty file; false if there is one already. Of several callers one is told true.
  bool create(const std::string& name) { return line_.ask(detail::download::Verb::Create, name) != 0; }

  void remove(const std::string& name) { line_.ask(detail::download::Verb::Remove, name); }

  Folder(bool is_shared, detail::download::Line& line) : is_shared_(is_shared), line_(line) {}

 private:
  bool is_shared_;
  detail::download::Line& line_;
};

namespace detail::download {

/// Keeps the files, and notes what is done to them.
class Keeper {
 public:
  Keeper(Ranks& ranks, const Settings& settings) : ranks_(ranks), settings_(settings) {
    for (std::uint64_t node = 0; node < folders(); ++node) {
      if ((settings.present >> node & 1) != 0) names_[{node, kData}] = new_file(kChunks);
    }
    begin_run();
  }

  Outcome serve() {
    while (!is_over_) {
      Request request;
      const int from = ranks_.recv(std::span<Request>(&request, 1), kAnySource, kTag);
      std::vector<unsigned char> chunk(kChunkBytes);
      if (request.verb == Verb::Append) ranks_.recv(std::span<unsigned char>(chunk), from, kTag + 1);
      request.name.back() = request.second.back() = '\0';
      take(request, from);
    }
    return outcome_;
  }

  static constexpr const char* kData = "data.bin";

 private:
  struct File {
    std::uint64_t chunks = 0;
    int writer = -1;
    bool is_mixed = false;
  };
  using Place = std::pair<std::uint64_t, std::string>;

  std::uint64_t folders() const { return settings_.is_shared != 0 ? 1 : settings_.nodes; }
  std::uint64_t new_file(std::uint64_t chunks) {
    files_.push_back({chunks});
    return files_.size() - 1;
  }
  void reply(int to, std::uint64_t value) {
    const Reply answer{value, is_killed_};
    ranks_.send(std::span<const Reply>(&answer, 1), to, kTag);
  }
  void begin_run() {
    is_killed_ = 0;
    calls_ = 0;
    for (std::uint64_t node = 0; node < folders(); ++node) {
      const auto found = names_.find({node, kData});
      const bool whole = found != names_.end() && files_[found->second].chunks == kChunks;
      outcome_.needed += whole ? 0 : 1;
    }
  }
  void kill() {
    is_killed_ = 1;
    for (const int rank : waiting_) reply(rank, 0);
    waiting_.clear();
  }

  void take(const Request& request, int from) {
    if (request.verb == Verb::Done || request.verb == Verb::Restart) return end_of_run(from);
    ++outcome_.calls;
    if (++calls_ > kPatience && is_killed_ == 0) {
      outcome_.given_up = 1;
      kill();
    }
    if (is_killed_ != 0) return reply(from, 0);
    if (request.verb == Verb::Barrier) return barrier(from);
    const Place place{settings_.is_shared != 0 ? 0 : request.node, request.name.data()};
    reply(from, answer(request, place, from));
  }

  void barrier(int from) {
    waiting_.push_back(from);
    if (waiting_.size() < settings_.workers) return;
    for (const int rank : std::exchange(waiting_, {})) reply(rank, 0);
  }

  /// All come to the end of a run: either it was killed, and is started again, or it was the last.
  void end_of_run(int from) {
    ended_.push_back(from);
    if (ended_.size() < settings_.workers) return;
    const bool again = is_killed_ != 0 && outcome_.given_up == 0;
    if (again) begin_run();
    is_killed_ = 0;
    is_over_ = !again;
    for (const int rank : std::exchange(ended_, {})) reply(rank, again ? 1 : 0);
  }

  std::uint64_t answer(const Request& request, const Place& place, int from) {
    const auto found = names_.find(place);
    switch (request.verb) {
      case Verb::Exists:
        return found != names_.end();
      case Verb::Create:
        if (found != names_.end()) return 0;
        names_[place] = new_file(0);
        return 1;
      case Verb::Remove:
        return names_.erase(place);
      case Verb::Rename: {
        if (found == names_.end()) return 0;
        const std::uint64_t file = found->second;
        names_.erase(found);
        names_[{place.first, request.second.data()}] = file;
        return 1;
      }
      case Verb::Begin:
        return begin(place, from);
      case Verb::Append:
        return append(request.file, from);
      case Verb::Read:
        return read(found == names_.end() ? nullptr : &files_[found->second], from);
      default:
        return 0;
    }
  }

  std::uint64_t begin(const Place& place, int from) {
    ++outcome_.downloads;
    if (names_.count(place) == 0) names_[place] = new_file(0);
    File& file = files_[names_[place]];
    file.is_mixed = file.writer >= 0 && file.writer != from && file.chunks < kChunks;
    file.chunks = 0;
    file.writer = from;
    return names_[place];
  }

  std::uint64_t append(std::uint64_t number, int from) {
    if (number >= files_.size()) return 0;
    File& file = files_[number];
    if (file.writer != from) file.is_mixed = true;
    file.chunks = file.chunks < kChunks ? file.chunks + 1 : kChunks;
    if (settings_.kill_after != 0 && outcome_.was_killed == 0 && ++written_ >= settings_.kill_after) {
      outcome_.was_killed = 1;
      for (File& each : files_) each.writer = -1;
      kill();
    }
    return 0;
  }

  std::uint64_t read(const File* file, int from) {
    const bool good = file != nullptr && file->chunks == kChunks && !file->is_mixed;
    if (!good && outcome_.missing + outcome_.half + outcome_.mixed == 0) {
      outcome_.first_bad_rank = static_cast<std::uint64_t>(from);
    }
    if (file == nullptr) {
      ++outcome_.missing;
    } else if (file->is_mixed) {
      ++outcome_.mixed;
    } else if (file->chunks < kChunks) {
      ++outcome_.half;
    }
    return good ? 1 : 0;
  }

  Ranks& ranks_;
  Settings settings_;
  Outcome outcome_;
  std::vector<File> files_;
  std::map<Place, std::uint64_t> names_;
  std::vector<int> waiting_, ended_;  // in the barrier; at the end of a run
  std::uint64_t is_killed_ = 0, calls_ = 0, written_ = 0;
  bool is_over_ = false;
};

/// A process's life: prepare(), and at once the file is read; after a kill the same again.
template <typename Prepare>
void work(Ranks& ranks, const Settings& settings, Prepare prepare) {
  const auto rank = static_cast<std::uint64_t>(ranks.rank());
  const std::uint64_t node = rank * settings.nodes / settings.workers;
  std::uint64_t local = 0;
  while (local < rank && (rank - local - 1) * settings.nodes / settings.workers == node) ++local;
  Line line(ranks, node);
  for (bool again = true; again;) {
    Job job(ranks.rank(), static_cast<int>(settings.workers), static_cast<int>(local), line);
    Folder folder(settings.is_shared != 0, line);
    Verb end = Verb::Done;
    try {
      prepare(job, folder, std::string(Keeper::kData));
      line.ask(Verb::Read, Keeper::kData);
    } catch (const Killed&) {
      end = Verb::Restart;
    }
    again = line.ask(end) != 0;
  }
}

template <typename Prepare>
void run(Ranks& ranks, const Call& call, Prepare prepare) {
  const Settings settings = *call.buffer<const Settings>(0).data();
  if (ranks.rank() + 1 < ranks.world_size()) {
    work(ranks, settings, prepare);
  } else {
    *call.buffer<Outcome>(1).data() = Keeper(ranks, settings).serve();
  }
}

}  // namespace detail::download
}  // namespace tutti::labs

/// void F(Job& job, Folder& folder, const std::string& name);
#define TUTTI_LAB_PREPARE(F)                                                                   \
  namespace {                                                                                  \
  struct TuttiForm_prepare {                                                                   \
    static void run(::tutti::labs::Ranks& ranks, ::tutti::labs::detail::Call& call) {          \
      ::tutti::labs::detail::download::run(ranks, call, F);                                    \
    }                                                                                          \
  };                                                                                           \
  const ::tutti::labs::detail::RegisteredOnce<TuttiForm_prepare> tutti_lab_prepare("prepare"); \
  }
