// The page of a run, and the data it is drawn from: complete without a network, closed to hostile texts, small. What
// the page's script makes of it is looked at in a browser (page_in_browser.py).
#include <gtest/gtest.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/report/page/html.h>
#include <tutti/trainer/report/page/report_page.h>
#include <tutti/trainer/report/run_recorder.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace tutti::trainer {
namespace {

using Json = nlohmann::json;
using page::escaped;

std::size_t count_of(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// What page.js is given. Checks what must hold of every page.
Json data_of(std::string html) {
  const std::string begin = "<script type=\"application/json\" id=\"run\">";
  const auto from = html.find(begin) + begin.size();
  const std::string data = html.substr(from, html.find("</script>", from) - from);
  html.erase(from, data.size());
  EXPECT_EQ(data.find('<'), std::string::npos);
  EXPECT_EQ(count_of(html, "<script"), 2u) << "its data and page.js";
  for (const char* never : {"<img", "<iframe", "https:", "src=", "url(", "javascript:", "{{"}) {
    EXPECT_EQ(count_of(html, never), 0u) << never;
  }
  test::expect_parts(html, {"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-"});
  return Json::parse(data);
}

void expect_remarks(const Json& data, const std::vector<std::string>& parts) {
  test::expect_parts(data["remarks"].dump(), parts);
}

void write_steps(const std::filesystem::path& folder, int rank, std::int64_t count, double own_seconds,
                 double wait_seconds) {
  StepsWriter writer(steps_file(folder, rank), 0);
  for (std::int64_t step = 0; step < count; ++step) {
    writer.add({.epoch = 1 + static_cast<int>(step / 100),
                .step = step % 100,
                .steps_per_epoch = 100,
                .global_step = step,
                .loss = 2.0 / static_cast<double>(step + 1),
                .learning_rate = 1e-3 / static_cast<double>(step + 1),
                .samples = 64,
                .seconds = own_seconds + wait_seconds,
                .wait_seconds = wait_seconds});
  }
}

RunReport example_report() {
  RunReport report;
  report.task = "mercer";
  report.model = "resnet18";
  report.world_size = 3;
  report.batch_size = 32;
  report.epochs = {{.epoch = 1, .train_loss = 0.5, .test_loss = 0.25, .test_accuracy = 0.75, .seconds = 2},
                   {.epoch = 2, .train_loss = 0.4, .test_loss = 0.2, .test_accuracy = 0.8, .seconds = 2}};
  report.final_test_accuracy = 0.8;
  report.confusion_matrix = {{40, 10}, {5, 45}};
  report.class_names = {"forest", "river"};
  report.seconds_training = 4;
  report.samples_per_second = 12345.6;
  report.parameter_sha256 = "ab12";
  return report;
}

class Page : public testing::Test {
 protected:
  std::string page_of_run() {
    RunData run = read_run(folder_.path());
    add_trace(run, {});
    return report_page(run);
  }
  void write(const std::string& name, const std::string& text) { replace_file(folder_ / name, text); }

  TemporaryFolder folder_;
};

TEST(Html, TextsCannotBreakOut) {
  EXPECT_EQ(escaped("a<b>&\"c\"'d'"), "a&lt;b&gt;&amp;&quot;c&quot;&#39;d&#39;");
  EXPECT_EQ(escaped("\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x8E\xB5"), "\xC3\xA4 \xE2\x82\xAC \xF0\x9F\x8E\xB5");
  const std::string replaced = "\xEF\xBF\xBD";
  EXPECT_EQ(escaped("\xFF"
                    "a\xC3"),
            replaced + "a" + replaced);
  EXPECT_EQ(escaped("\xED\xA0\x80"), replaced + replaced + replaced);  // half of a surrogate pair
  EXPECT_EQ(escaped(std::string("a\0b\x1B", 4)), "a" + replaced + "b" + replaced);
  EXPECT_EQ(escaped("\xC0\xBC script"), replaced + replaced + " script");  // "<" in too many bytes
}

TEST_F(Page, ShowsWhatARunLeft) {
  for (const int rank : {0, 1, 2})
    write_steps(folder_.path(), rank, 200, rank == 2 ? 2e-3 : 1e-3, rank == 2 ? 0 : 1e-3);
  write("report.json", to_json(example_report()));
  write("options.json", R"({"model": "resnet18", "lr": "0.05"})");
  EXPECT_EQ(data_of(page_of_run())["origin"], Json::object()) << "a run of an older version";
  write("run.json", R"({"started": "2026-03-01 12:00:00", "host": "node7", "command": "tutti train <mercer>"})");
  write(
      "buckets.json",
      R"([{"bytes":1024,"start_seconds":0.001,"wait_seconds":0},{"bytes":4096,"start_seconds":0.002,"wait_seconds":0.0005}])");
  write("log.txt", "2026-03-01 12:00:00.000 rank 0: hello from the log\n");
  const std::string html = page_of_run();
  test::expect_parts(html, {"<title>resnet18 on mercer</title>", "prefers-color-scheme:dark"});
  const Json data = data_of(html);
  EXPECT_EQ(data["title"], "resnet18 on mercer");
  EXPECT_EQ(data["report"]["final_test_accuracy"], 0.8);
  EXPECT_EQ(data["report"]["parameter_sha256"], "ab12");
  EXPECT_EQ(data["report"]["class_names"][0], "forest");
  EXPECT_EQ(data["options"]["lr"], "0.05");
  EXPECT_EQ(data["origin"]["started"], "2026-03-01 12:00:00");
  EXPECT_EQ(data["origin"]["host"], "node7");
  EXPECT_EQ(data["origin"]["command"], "tutti train <mercer>");
  EXPECT_EQ(data["log"][0], "2026-03-01 12:00:00.000 rank 0: hello from the log");
  EXPECT_EQ(data["confusion"]["mistakes"][0], Json::parse(R"({"actual": 0, "predicted": 1, "count": 10})"));
  EXPECT_EQ(data["buckets"]["list"].size(), 2u);
  EXPECT_EQ(data["buckets"]["list"][1]["wait_seconds"], 0.0005);
  EXPECT_NEAR(data["buckets"]["step_seconds"].get<double>(), 2e-3, 1e-9);
  EXPECT_EQ(data["curves"]["loss"].size(), 200u);
  EXPECT_EQ(data["curves"]["loss"][0], Json::parse("[0.01, 2.0]"));
  const Json& slow = data["ranks"]["ranks"][2];
  EXPECT_EQ(slow["straggler"], true);
  EXPECT_NEAR(slow["slowdown"].get<double>(), 2, 1e-9);
  EXPECT_EQ(slow["last_share"], 1.0);
  EXPECT_EQ(slow["map"].size(), 120u);
}

TEST_F(Page, HostileTextsStayTexts) {
  const std::string evil = "</style></title></script><script>alert(1)</script><img src=x onerror=alert(2)>\"' \xFF";
  RunReport report = example_report();
  report.class_names = {"<script>alert(1)</script>", "\" onmouseover=\"alert(1)"};
  report.model = "</title><script>alert(3)</script>";
  write("report.json", to_json(report));
  write("options.json", option_texts_to_json({{evil, evil}, {"trace", "/nowhere/<script>"}}));
  write("log.txt", evil + "\n");
  write_steps(folder_.path(), 0, 20, 1e-3, 0);
  const std::string html = page_of_run();
  const Json data = data_of(html);
  test::expect_parts(html, {"&lt;script&gt;alert(3)"});
  EXPECT_EQ(data["report"]["class_names"][0], "<script>alert(1)</script>");
  EXPECT_EQ(data["log"][0], evil.substr(0, evil.size() - 1) + "\xEF\xBF\xBD");
}

TEST_F(Page, WhatIsMissingIsSaid) {
  test::expect_parts(error_of([&] { read_run(folder_.path()); }), {"no run has written into"});
  test::expect_parts(error_of([&] { read_run(folder_ / "nowhere"); }), {"nowhere is no folder"});

  write_steps(folder_.path(), 1, 50, 1e-3, 1e-4);  // rank 0 was on another host
  Json data = data_of(page_of_run());
  expect_remarks(data, {"there is no report.json", "steps of 1 of 2 ranks are here", "the options are not known"});
  EXPECT_EQ(data["finished"], false);
  EXPECT_EQ(data["trace"], nullptr);
  EXPECT_EQ(data["buckets"]["step_seconds"], 0.0);

  write("report.json", "{\"epochs\": [{\"epoch\": \"x\"}]}");
  write("buckets.json", "{");
  write("options.json", "[]");
  data = data_of(page_of_run());
  expect_remarks(data, {"the results of report.json cannot be shown", "the buckets cannot be shown"});

  write("report.json", to_json(example_report()));
  std::filesystem::remove(steps_file(folder_.path(), 1));
  data = data_of(page_of_run());
  expect_remarks(data, {"there are no records of steps"});
  EXPECT_EQ(data["ranks"]["count"], 0);
  EXPECT_EQ(data["curves"]["loss"].size(), 0u);
}

TEST_F(Page, ADivergedRunIsShown) {
  StepsWriter writer(steps_file(folder_.path(), 0), 0);
  for (std::int64_t step = 0; step < 20; ++step) {
    writer.add(
        {.epoch = 1, .step = step, .steps_per_epoch = 20, .global_step = step, .loss = std::nan(""), .samples = 4});
  }
  writer.flush();
  RunReport report = example_report();
  report.epochs[0].train_loss = std::nan("");
  write("report.json", to_json(report));
  const Json data = data_of(page_of_run());
  EXPECT_EQ(data["curves"]["loss"][0][1], nullptr);
  EXPECT_EQ(data["report"]["epochs"][0]["train_loss"], nullptr);
}

TEST_F(Page, StaysSmallHoweverLongTheRun) {
  for (const int rank : {0, 1, 2}) write_steps(folder_.path(), rank, 20'000, 1e-3, 1e-4);
  std::string trace = "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"ranks\":2},\"traceEvents\":[\n";
  for (int i = 0; i < 20'000; ++i) {
    const std::string number = std::to_string(i + 1);
    trace += "{\"ph\":\"X\",\"name\":\"all_reduce\",\"cat\":\"collective\",\"pid\":" + std::to_string(i % 3) +
             ",\"tid\":0,\"ts\":" + number + "00.5,\"dur\":50.25,\"args\":{\"operation\":\"all_reduce seq " + number +
             " (sum float32 x 100)\",\"bytes\":400,\"state\":\"done\",\"algorithm\":\"ring\"}},\n";
  }
  write("trace.json", trace + R"({"ph":"M","name":"clock"})" + "\n]}\n");
  write("options.json", option_texts_to_json({{"trace", (folder_ / "trace.json").string()}}));
  write("report.json", to_json(example_report()));
  const std::string html = page_of_run();
  EXPECT_LT(html.size(), 400'000u);
  const Json data = data_of(html);
  EXPECT_EQ(data["trace"]["count"], 20'000);
  EXPECT_EQ(data["trace"]["ranks"].size(), 3u);
  EXPECT_NEAR(data["trace"]["ranks"][1]["busy"][60].get<double>(), 50.25 / 300, 0.01);
  const Json& span = data["trace"]["spans"][0];
  test::expect_parts(span["detail"].get<std::string>(), {"(sum float32 x 100), 400 bytes by ring"});
  EXPECT_EQ(span["duration_us"], 50.25);
  // A line of 400 points, each the mean over 50 steps, at the last of them.
  ASSERT_EQ(data["curves"]["learning_rate"].size(), 400u);
  double mean = 0;
  for (int step = 1; step <= 50; ++step) mean += 1e-3 / step / 50;
  EXPECT_EQ(data["curves"]["learning_rate"][0][0], 0.5);
  EXPECT_NEAR(data["curves"]["learning_rate"][0][1].get<double>(), mean, 1e-4 * mean);
}

TEST_F(Page, ATraceThatIsNoneIsSaid) {
  write_steps(folder_.path(), 0, 20, 1e-3, 0);
  write("no_trace", "hello\n");
  RunData run = read_run(folder_.path());
  add_trace(run, folder_ / "no_trace");
  add_trace(run, folder_ / "nowhere");
  ASSERT_GE(run.remarks.size(), 2u);
  test::expect_parts(run.remarks[run.remarks.size() - 2], {"no_trace is no trace of tutti train"});
  test::expect_parts(run.remarks.back(), {"cannot read " + (folder_ / "nowhere").string()});
}

TEST_F(Page, ManyClassesAndRanksFit) {
  RunReport report = example_report();
  report.world_size = 100;
  for (const std::size_t classes : {21u, 101u}) {
    report.confusion_matrix.assign(classes, std::vector<std::int64_t>(classes, 1));
    write("report.json", to_json(report));
    for (int rank = 0; rank < 100; ++rank) write_steps(folder_.path(), rank, 12, rank == 70 ? 3e-3 : 1e-3, 1e-4);
    const Json data = data_of(page_of_run());
    EXPECT_EQ(data["ranks"]["count"], 100);
    EXPECT_EQ(data["ranks"]["ranks"].size(), 64u);
    bool found = false;
    for (const Json& rank : data["ranks"]["ranks"]) found = found || (rank["rank"] == 70 && rank["straggler"] == true);
    EXPECT_TRUE(found);
    EXPECT_EQ(data["confusion"]["classes"], classes);
    EXPECT_EQ(data["report"]["confusion_matrix"] == nullptr, classes > 100);
  }
}

}  // namespace
}  // namespace tutti::trainer
