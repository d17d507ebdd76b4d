#include <tutti/trainer/report/page/html.h>
#include <tutti/trainer/report/page/sections.h>
#include <tutti/trainer/report/step_times.h>

#include <algorithm>

namespace tutti::trainer::page {
namespace {

constexpr std::size_t kMostBuckets = 100;

/// Rank 0's mean step, where it was recorded.
double mean_step(const RunData& run) {
  if (run.steps.empty() || run.steps.front().rank != 0) return 0;
  return step_times({run.steps.front()}).ranks.front().seconds;
}

std::string piece(const char* kind, double seconds, double scale) {
  return "<span class=\"bar " + std::string(kind) + "\" style=\"width:" + coordinate(100 * seconds / scale) +
         "%\"></span>";
}

/// What the row shows from left to right: nothing until the bucket is complete, its way while backward goes on, nothing
/// while the buckets before it are waited for, and what is waited for itself.
std::string bucket_row(std::size_t index, const BucketTiming& bucket, double backward, double waited_before,
                       double scale) {
  return "<tr><th scope=\"row\">" + std::to_string(index) + "</th><td>" + bytes(static_cast<double>(bucket.nbytes)) +
         "</td><td>" + duration(bucket.start_seconds) + "</td><td>" +
         (bucket.wait_seconds > 0 ? duration(bucket.wait_seconds) : "none") + "</td><td class=\"wide\">" +
         piece("blank", bucket.start_seconds, scale) + piece("s0 light", backward - bucket.start_seconds, scale) +
         piece("blank", waited_before, scale) + piece("s1", bucket.wait_seconds, scale) + "</td></tr>";
}

}  // namespace

std::string buckets_section(const RunData& run) {
  const char* title = "Overlap of communication";
  if (run.buckets.empty()) {
    return section(
        "buckets", title,
        absent(run.finished && run.report.world_size == 1 ? "A single rank exchanges no gradients."
                                                          : "No buckets of gradients were recorded (buckets.json)."));
  }
  double total_bytes = 0, waited = 0, backward = 0;  // which lasts until the last bucket is complete
  for (const BucketTiming& bucket : run.buckets) {
    total_bytes += static_cast<double>(bucket.nbytes);
    waited += bucket.wait_seconds;
    backward = std::max(backward, bucket.start_seconds);
  }
  std::string text = "<p>" + bytes(total_bytes) + " of gradients travel in " + std::to_string(run.buckets.size()) +
                     (run.buckets.size() == 1 ? " bucket" : " buckets") +
                     " a step. After its own backward rank 0 waited " + duration(waited) + " for them on average";
  const double step = mean_step(run);
  if (step > 0) text += ", " + percent(waited / step) + " of a step";
  text += ".</p>";
  std::string rows;
  const std::size_t shown = std::min(kMostBuckets, run.buckets.size());
  double waited_before = 0;
  for (std::size_t i = 0; i < shown; ++i) {
    rows += bucket_row(i, run.buckets[i], backward, waited_before, std::max(backward + waited, 1e-12));
    waited_before += run.buckets[i].wait_seconds;
  }
  if (shown < run.buckets.size()) text += "<p>The first " + std::to_string(shown) + " are listed.</p>";
  return section(
      "buckets", title,
      text +
          "<ul class=\"legend\"><li><span class=\"key box s0 light\"></span>complete and on its way while backward "
          "goes on"
          "</li><li><span class=\"key box s1\"></span>waited for after backward</li></ul><div "
          "class=\"scroll\"><table "
          "class=\"plain bars\"><tr><th>bucket</th><th>size</th><th>sent after</th><th>waited</th><th class=\"wide\">"
          "</th></tr>" +
          rows + "</table></div>");
}

}  // namespace tutti::trainer::page
