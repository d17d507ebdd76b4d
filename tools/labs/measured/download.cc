// Lab download: one download for each file system, and no process that reads what is not whole.

#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/lab_download.h>
#include <tutti/tools/labs/measured/checks.h>
#include <tutti/tools/labs/measured/runs.h>

namespace tutti::labs {
namespace {

using detail::download::Outcome;
using detail::download::Settings;

struct DownloadCase {
  const char* name;
  const char* title;
  int points;
  Settings settings;
  int late_rank = -1;  // begins half a second later
};

const DownloadCase kCases[] = {
    {"one_node", "three processes of one node", 10, {.workers = 3}},
    {"shared", "three nodes that share a folder", 15, {.workers = 6, .nodes = 3}},
    {"local", "three nodes with a folder of their own each", 15, {.workers = 6, .nodes = 3, .is_shared = 0}},
    {"uneven", "three processes on one node, two on the other", 10, {.workers = 5, .nodes = 2, .is_shared = 0}},
    {"present", "the file is there already", 10, {.workers = 6, .nodes = 3, .present = 1}},
    {"partly", "one node of three has the file", 10, {.workers = 6, .nodes = 3, .is_shared = 0, .present = 1}},
    {"late", "the first process comes late", 10, {.workers = 6, .nodes = 3, .is_shared = 0}, 0},
    {"killed",
     "a job that is killed while it downloads, and runs again",
     10,
     {.workers = 6, .nodes = 3, .kill_after = 4}},
    {"killed_local",
     "the same with a folder on each node",
     10,
     {.workers = 6, .nodes = 3, .is_shared = 0, .kill_after = 13}},
};

std::string times(std::uint64_t count) { return count == 1 ? "once" : std::to_string(count) + " times"; }

std::optional<Finding> unread(const DownloadCase& one, const Outcome& seen) {
  using namespace diagnosis;
  const std::string rank = "rank " + std::to_string(seen.first_bad_rank);
  if (seen.mixed > 0) {
    return finding_of(kTwoWriters,
                      "two processes wrote the same file at the same time, and " + rank + " read the mixture",
                      "All look, none sees the file, all begin. Who of those that share a folder should download?");
  }
  if (seen.half > 0) {
    const bool after_kill = seen.was_killed != 0;
    return finding_of(kHalfFileRead,
                      rank + " read a file that was not whole" +
                          (after_kill ? ": an earlier run was killed while it wrote, and left it" : ""),
                      after_kill
                          ? "That a file is there does not mean that all of it is there. What could be made to "
                            "appear in one moment, when the download is complete?"
                          : "That a file is there does not mean that all of it is there. When may the others go on?");
  }
  if (seen.missing == 0) return std::nullopt;
  if (seen.downloads == 0) {
    if (seen.calls <= one.settings.workers) {
      return finding_of(kNotStarted, "prepare does nothing",
                        "Begin with one process of all: it downloads, the others wait.");
    }
    return finding_of(kNoDownload, "nobody downloads, and " + rank + " finds no file",
                      "Is there a process in each of these jobs that your condition chooses?");
  }
  if (one.settings.is_shared == 0) {
    return finding_of(kWholeWorldForLocal,
                      rank + " finds no file: its node has a folder of its own, in which nobody put it",
                      "Which number does a process have on its node?");
  }
  return finding_of(kHalfFileRead, rank + " finds no file yet",
                    "How do the others learn that the download is complete?");
}

std::optional<Finding> judge(const DownloadCase& one, const Outcome& seen) {
  using namespace diagnosis;
  if (seen.given_up != 0) {
    const bool stale = seen.was_killed != 0;
    return finding_of(stale ? kStaleLock : kEndlessLoop,
                      "after " + std::to_string(detail::download::kPatience) + " calls nobody has come any further" +
                          (stale ? ": an earlier run was killed, and what it left keeps this one waiting" : ""),
                      "Who asks again and again has no end if nothing changes. What does a killed job leave behind?");
  }
  if (auto finding = unread(one, seen)) return finding;
  if (seen.downloads <= seen.needed) return std::nullopt;
  const std::string text = "the data set was downloaded " + times(seen.downloads) + ", and " +
                           (seen.needed == 0 ? "it was there already" : times(seen.needed) + " is enough");
  if (seen.downloads > 0 && (seen.needed == 0 || one.settings.present != 0)) {
    return finding_of(kNeedlessDownload, text, "Look before you download: in the folder of the very node.");
  }
  return finding_of(
      kSeveralDownloads, text,
      "One process for each file system: is_shared() says whether that is one of the job, or one of each node.");
}

StageResult stage(const DownloadCase& one, Submission& submission) {
  Case posed;
  posed.world_size = static_cast<int>(one.settings.workers) + 1;  // the last one keeps the files
  Question question = question_of("prepare", posed,
                                  {buffer_of("settings", std::vector<Settings>{one.settings}, true),
                                   buffer_of("outcome", std::vector<Outcome>(1))});
  if (one.late_rank >= 0) {
    question.late.assign(static_cast<std::size_t>(posed.world_size), {0.0});
    question.late[static_cast<std::size_t>(one.late_rank)] = {0.5};
  }
  const RunResult run = submission.run(question);
  std::optional<Finding> finding = incident_of(run, one.title);
  std::string note;
  if (!finding) {
    const Outcome seen = values_of<Outcome>(run.buffers.back()[1]).at(0);
    finding = judge(one, seen);
    note = std::to_string(seen.downloads) + " downloads, " + std::to_string(seen.needed) + " needed";
  } else if (finding->diagnosis == diagnosis::kDeadlock) {
    finding->text += " (rank " + std::to_string(posed.world_size - 1) + " is the grader's: it keeps the files)";
    finding->hint = "barrier() returns when all processes of the job have called it. Is there a way past it?";
  }
  StageResult result = stage_of(one.name, one.title, one.points, std::move(finding));
  result.note = note;
  return result;
}

void fill(const CheckContext& context, Report& report) {
  report.lab = "download";
  const auto source = source_in(context.folder, "download");
  report.source = source.string();
  if (context.progress) context.progress("compiling");
  const auto submission = opened(source, {"prepare"});
  report.failure = submission->failure;
  if (!submission->messages.empty()) report.notes.push_back(submission->messages);
  if (report.failure) return;
  bool goes_on = true;
  for (const DownloadCase& one : kCases) {
    if (context.progress) context.progress(one.title);
    StageResult result = stage_of(one.name, one.title, one.points, std::nullopt);
    if (goes_on) {
      result = stage(one, *submission->submission);
    } else {
      result.points = 0;
      result.was_run = false;
    }
    goes_on = goes_on && !(result.finding && (ends_grading(result.finding->diagnosis) ||
                                              result.finding->diagnosis == diagnosis::kNotStarted));
    report.stages.push_back(std::move(result));
  }
}

}  // namespace

Report check_download(const CheckContext& context) {
  Report report;
  {
    const Stopwatch stopwatch(report);
    fill(context, report);
  }
  return report;
}

}  // namespace tutti::labs
