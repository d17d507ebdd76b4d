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

std::string bucket_row(std::size_t index, const BucketTiming& bucket, double scale) {
  return "<tr><th scope=\"row\">" + std::to_string(index) + "</th><td>" + bytes(static_cast<double>(bucket.nbytes)) +
         "</td><td>" + duration(bucket.start_seconds) + "</td><td>" +
         (bucket.wait_seconds > 0 ? duration(bucket.wait_seconds) : "none") +
         "</td><td class=\"wide\"><span class=\"bar blank\" style=\"width:" +
         coordinate(100 * bucket.start_seconds / scale) +
         "%\"></span><span class=\"bar mark s0\"></span><span class=\"bar s1\" style=\"width:" +
         coordinate(100 * bucket.wait_seconds / scale) + "%\"></span></td></tr>";
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
  double total_bytes = 0, waited = 0, longest = 0;
  for (const BucketTiming& bucket : run.buckets) {
    total_bytes += static_cast<double>(bucket.nbytes);
    waited += bucket.wait_seconds;
    longest = std::max(longest, bucket.start_seconds + bucket.wait_seconds);
  }
  std::string text = "<p>" + bytes(total_bytes) + " of gradients travel in " + std::to_string(run.buckets.size()) +
                     (run.buckets.size() == 1 ? " bucket" : " buckets") +
                     " a step. After its own backward rank 0 waited " + duration(waited) + " for them on average";
  const double step = mean_step(run);
  if (step > 0) text += ", " + percent(waited / step) + " of a step";
  text += ".</p>";
  std::string rows;
  const std::size_t shown = std::min(kMostBuckets, run.buckets.size());
  for (std::size_t i = 0; i < shown; ++i) rows += bucket_row(i, run.buckets[i], std::max(longest, 1e-12));
  if (shown < run.buckets.size()) text += "<p>The first " + std::to_string(shown) + " are listed.</p>";
  return section(
      "buckets", title,
      text +
          "<ul class=\"legend\"><li><span class=\"key box s0\"></span>complete and sent, since backward "
          "began</li><li><span class=\"key box s1\"></span>waited for after backward</li></ul><div "
          "class=\"scroll\"><table "
          "class=\"plain bars\"><tr><th>bucket</th><th>size</th><th>sent after</th><th>waited</th><th class=\"wide\">"
          "</th></tr>" +
          rows + "</table></div>");
}

}  // namespace tutti::trainer::page
