#include <fcntl.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/comm/base/printable_utf8.h>
#include <tutti/tools/run/rank_output.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

namespace tutti::tools {
namespace {

constexpr std::size_t kMaxTailLine = 2000;

// The C++ runtime's two lines about an uncaught error, and what comm puts before another rank's cause.
constexpr std::string_view kThrown = "terminate called after throwing an instance of 'tutti::comm::Error'";
constexpr std::string_view kWhat = "  what():  ";
constexpr std::string_view kFirstCause = "first cause: ";

bool chosen(const std::vector<int>& filter, int rank) {
  return filter.empty() || std::find(filter.begin(), filter.end(), rank) != filter.end();
}

// Hosts are called as the table at the start of a job on several calls them.
std::string host_of(const JobEnvironment& job) {
  if (!job.place().host.empty()) return job.place().host;
  const std::string whole = comm::host_name();
  return whole.substr(0, whole.find('.'));
}

}  // namespace

LinePrinter::LinePrinter(const LaunchOptions& options, const JobEnvironment& job, Console& console)
    : labels_(options.label), first_rank_(job.place().first_rank), before_rank_("rank "), console_(console) {
  const std::string& form = options.local.label;
  if (form == "host" || (form.empty() && job.plan.nodes.size() > 1)) before_rank_ = host_of(job) + "/";
}

std::string LinePrinter::label_of(int local_rank) const {
  return labels_ ? "[" + before_rank_ + std::to_string(first_rank_ + local_rank) + "] " : "";
}

void LinePrinter::print_live(int local_rank, Stream stream, std::string_view line) {
  sink(stream).show_live(comm::printable_utf8(label_of(local_rank) + std::string(line)));
}

void LinePrinter::flush() {
  for (const Stream stream : {Stream::Out, Stream::Err}) sink(stream).push("");
}

void LinePrinter::print(int local_rank, Stream stream, std::string_view line) {
  static constexpr const char* kColours[] = {"36", "33", "35", "32", "34", "31"};
  Sink& target = sink(stream);
  std::string text = label_of(local_rank);
  if (target.colours() && labels_)
    text = std::string("\033[") + kColours[(first_rank_ + local_rank) % 6] + "m" + text + "\033[0m";
  text.append(line).push_back('\n');
  target.push(text);
}

RankOutput::RankOutput(const LaunchOptions& options, const JobEnvironment& job, int local_rank, int out_fd, int err_fd,
                       LinePrinter& printer)
    : local_rank_(local_rank),
      split_lines_(job.plan.world_size > 1 || !options.local.label.empty()),
      printer_(printer),
      streams_{{Stream::Out, comm::Socket(out_fd)}, {Stream::Err, comm::Socket(err_fd)}} {
  const LocalOptions& local = options.local;
  const int rank = job.place().first_rank + local_rank;
  // A log folder alone means: everything goes there.
  const bool all = !options.log_dir.empty() && local.redirects == 0 && local.tees == 0;
  const std::string folder = options.log_dir + "/" + job.plan.job_id + "/attempt_" +
                             std::to_string(job.plan.restart_count) + "/" + std::to_string(rank) + "/";
  for (StreamState& stream : streams_) {
    const int bit = 1 << static_cast<int>(stream.name);
    const bool teed = (local.tees & bit) != 0;
    const bool redirected = all || (local.redirects & bit) != 0;
    stream.shown = chosen(local.rank_filter, rank) && (teed || !redirected);
    if (teed || redirected) stream.log_file = folder + (stream.name == Stream::Out ? "stdout.log" : "stderr.log");
    open_log(stream);
  }
}

void RankOutput::open_log(StreamState& stream) {
  if (stream.log_file.empty()) return;
  std::error_code ignored;  // what is wrong with the folder, opening the file tells
  std::filesystem::create_directories(std::filesystem::path(stream.log_file).parent_path(), ignored);
  stream.log_fd = comm::Socket(::open(stream.log_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (stream.log_fd.get() < 0) comm::throw_errno("cannot write the log file " + stream.log_file, errno);
}

void RankOutput::add_poll_entries(std::vector<pollfd>& entries) const {
  for (const StreamState& stream : streams_) {
    const bool congested = stream.shown && printer_.sink(stream.name).congested();
    if (stream.fd.get() >= 0 && !congested) entries.push_back({stream.fd.get(), POLLIN, 0});
  }
}

bool RankOutput::handle(const pollfd& entry) {
  for (StreamState& stream : streams_) {
    if (entry.fd != stream.fd.get()) continue;
    if (entry.revents != 0) read_some(stream);
    return true;
  }
  return false;
}

void RankOutput::finish() {
  for (StreamState& stream : streams_) {
    while (stream.fd.get() >= 0 && read_some(stream)) {
    }
    if (stream.fd.get() >= 0) close_stream(stream);
  }
}

// True if there were bytes; closes the stream at its end, and when nobody is left who would read what it says.
bool RankOutput::read_some(StreamState& stream) {
  char bytes[16 * 1024];
  const ssize_t count = ::read(stream.fd.get(), bytes, sizeof(bytes));
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  const bool unread = stream.shown && printer_.sink(stream.name).unread() && stream.log_fd.get() < 0;
  if (count <= 0 || unread) {
    close_stream(stream);
    return false;
  }
  const std::string_view view(bytes, static_cast<std::size_t>(count));
  log(stream, view);
  if (stream.shown && !split_lines_) printer_.pass(stream.name, view);
  stream.splitter.feed(view, [&](std::string_view line, bool live) { emit(stream, line, live); });
  return true;
}

void RankOutput::close_stream(StreamState& stream) {
  stream.splitter.finish([&](std::string_view line, bool live) { emit(stream, line, live); });
  if (stream.shown && stream.thrown) show(stream, kThrown);
  stream.fd.close();
}

void RankOutput::emit(StreamState& stream, std::string_view line, bool live) {
  if (live && printer_.sink(stream.name).is_terminal()) {
    if (stream.shown && split_lines_) printer_.print_live(local_rank_, stream.name, line);
    return;
  }
  remember(line);
  if (stream.shown && !is_told(stream, line)) show(stream, line);
}

void RankOutput::show(StreamState& stream, std::string_view line) {
  if (split_lines_) printer_.print(local_rank_, stream.name, line);
}

// Of an uncaught error the first line waits for the second: where another rank has told the cause, both are left out.
bool RankOutput::is_told(StreamState& stream, std::string_view line) {
  const bool second = std::exchange(stream.thrown, false);
  bool told = false;
  if (second && line.starts_with(kWhat)) {
    const std::size_t cause = line.rfind(kFirstCause);
    told_uncaught_ = true;
    told = !printer_.is_news(
        std::string(line.substr(cause == std::string_view::npos ? kWhat.size() : cause + kFirstCause.size())));
  }
  if (second && !told) show(stream, kThrown);
  stream.thrown = line == kThrown;
  return told || stream.thrown;
}

void RankOutput::remember(std::string_view line) {
  tail_.emplace_back(line.size() <= kMaxTailLine ? std::string(line)
                                                 : std::string(line.substr(0, kMaxTailLine)) + "...");
  if (tail_.size() > kTailLines) tail_.pop_front();
}

void RankOutput::log(StreamState& stream, std::string_view bytes) {
  while (stream.log_fd.get() >= 0 && !bytes.empty()) {
    const ssize_t count = ::write(stream.log_fd.get(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      printer_.note_log_error(errno);
      const std::string reason = comm::errno_text(errno);
      printer_.pass(Stream::Err, "tutti: stopped writing " + stream.log_file + ": " + reason + "\n");
      stream.log_fd.close();
      return;
    }
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace tutti::tools
