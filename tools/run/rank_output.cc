#include <fcntl.h>
#include <tutti/comm/base/error.h>
#include <tutti/comm/base/host_name.h>
#include <tutti/tools/run/label.h>
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

std::string short_host_name() {
  const std::string whole = comm::host_name();
  return whole.substr(0, whole.find('.'));
}

bool chosen(const std::vector<int>& filter, int rank) {
  return filter.empty() || std::find(filter.begin(), filter.end(), rank) != filter.end();
}

}  // namespace

PrinterOptions printer_options(const LaunchOptions& options, const JobEnvironment& job) {
  PrinterOptions result;
  result.label = options.local.label.value_or(job.node_count > 1 ? kLabelOfSeveralHosts : kLabelOfOneHost);
  if (!options.label) result.label.clear();
  result.json = options.local.json;
  result.fold = options.local.fold;
  result.host = job.host.empty() ? short_host_name() : job.host;  // as the table at the start names it
  result.role = options.local.role;
  result.node = job.node;
  result.first_rank = job.first_rank;
  result.local_size = options.nproc;
  return result;
}

RankOutputOptions rank_output_options(const LaunchOptions& options, const JobEnvironment& job, int local_rank) {
  const LocalOptions& local = options.local;
  const bool wanted = chosen(local.local_filter, local_rank) && chosen(local.rank_filter, job.first_rank + local_rank);
  // A log folder alone means: everything goes there.
  const bool all = !options.log_dir.empty() && !local.redirects.any() && !local.tees.any();
  const std::string folder = options.log_dir + "/" + job.job_id + "/attempt_" + std::to_string(job.restart_count) +
                             "/" + std::to_string(job.first_rank + local_rank) + "/";
  RankOutputOptions result;
  result.split_lines = job.world_size > 1 || local.label || local.json;
  for (const Stream stream : {Stream::Out, Stream::Err}) {
    const auto i = static_cast<std::size_t>(stream);
    const bool teed = local.tees.has(local_rank, stream);
    const bool redirected = all || local.redirects.has(local_rank, stream);
    result.to_console[i] = wanted && (teed || !redirected);
    if (teed || redirected) result.log_files[i] = folder + (stream == Stream::Out ? "stdout.log" : "stderr.log");
  }
  return result;
}

RankOutput::RankOutput(int local_rank, int out_fd, int err_fd, const RankOutputOptions& options, LinePrinter& printer)
    : local_rank_(local_rank),
      split_lines_(options.split_lines),
      printer_(printer),
      streams_{{Stream::Out, out_fd, options.to_console[0], options.log_files[0]},
               {Stream::Err, err_fd, options.to_console[1], options.log_files[1]}} {
  for (StreamState& stream : streams_) open_log(stream);
}

RankOutput::~RankOutput() {
  for (const StreamState& stream : streams_) {
    if (stream.fd >= 0) ::close(stream.fd);
    if (stream.log_fd >= 0) ::close(stream.log_fd);
  }
}

void RankOutput::open_log(StreamState& stream) {
  if (stream.log_file.empty()) return;
  std::error_code ignored;  // what is wrong with the folder, opening the file tells
  std::filesystem::create_directories(std::filesystem::path(stream.log_file).parent_path(), ignored);
  stream.log_fd = ::open(stream.log_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (stream.log_fd >= 0) return;
  const int error = errno;
  for (const StreamState& opened : streams_) {  // the destructor will not run
    ::close(opened.fd);
    if (opened.log_fd >= 0) ::close(opened.log_fd);
  }
  comm::throw_errno("cannot write the log file " + stream.log_file, error);
}

void RankOutput::add_poll_entries(std::vector<pollfd>& entries) const {
  for (const StreamState& stream : streams_) {
    const bool congested = stream.shown && printer_.sink(stream.name).congested();
    if (stream.fd >= 0 && !congested) entries.push_back({stream.fd, POLLIN, 0});
  }
}

bool RankOutput::handle(const pollfd& entry) {
  for (StreamState& stream : streams_) {
    if (entry.fd != stream.fd) continue;
    if (entry.revents != 0) read_some(stream);
    return true;
  }
  return false;
}

void RankOutput::finish() {
  for (StreamState& stream : streams_) {
    while (stream.fd >= 0 && read_some(stream)) {
    }
    if (stream.fd >= 0) close_stream(stream);
  }
}

// True if there were bytes; closes the stream at its end, and when nobody is left who would read what it says.
bool RankOutput::read_some(StreamState& stream) {
  char bytes[16 * 1024];
  const ssize_t count = ::read(stream.fd, bytes, sizeof(bytes));
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  const bool unread = stream.shown && printer_.sink(stream.name).unread() && stream.log_fd < 0;
  if (count <= 0 || unread) {
    close_stream(stream);
    return false;
  }
  const std::string_view view(bytes, static_cast<std::size_t>(count));
  log(stream, view);
  if (stream.shown && !split_lines_) printer_.pass(stream.name, view);
  stream.splitter.feed(view, [&](std::string_view line) { emit(stream, line); });
  return true;
}

void RankOutput::close_stream(StreamState& stream) {
  stream.splitter.finish([&](std::string_view line) { emit(stream, line); });
  if (stream.shown && stream.thrown) show(stream, kThrown);
  ::close(stream.fd);
  stream.fd = -1;
}

void RankOutput::emit(StreamState& stream, std::string_view line) {
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
  while (stream.log_fd >= 0 && !bytes.empty()) {
    const ssize_t count = ::write(stream.log_fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const std::string reason = comm::errno_text(errno);
      printer_.pass(Stream::Err, "tutti: stopped writing " + stream.log_file + ": " + reason + "\n");
      ::close(std::exchange(stream.log_fd, -1));
      return;
    }
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace tutti::tools
