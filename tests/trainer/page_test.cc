// The page of a run, and the pieces it is made of: complete without a network, closed to hostile texts, small.
#include <gtest/gtest.h>
#include <tutti/tests/trainer/temporary_folder.h>
#include <tutti/trainer/checkpoint/files.h>
#include <tutti/trainer/report/page/html.h>
#include <tutti/trainer/report/page/line_chart.h>
#include <tutti/trainer/report/page/report_page.h>

#include <cmath>
#include <limits>
#include <set>

namespace tutti::trainer {
namespace {

using page::escaped;

/// "" if every tag of `html` is closed in order, else what is wrong. Knows what the page uses.
std::string tag_error(std::string_view html) {
  const std::set<std::string, std::less<>> without_end = {"!DOCTYPE", "meta", "link", "br"};
  std::vector<std::string> open;
  for (auto at = html.find('<'); at != std::string_view::npos; at = html.find('<', at + 1)) {
    const auto end = html.find('>', at);
    if (end == std::string_view::npos) return "a tag without an end";
    const std::string_view tag = html.substr(at + 1, end - at - 1);
    const bool closes = tag.starts_with('/');
    const std::string name(tag.substr(closes ? 1 : 0, tag.find_first_of(" /\n", closes ? 1 : 0) - (closes ? 1 : 0)));
    if (closes) {
      if (open.empty() || open.back() != name) return "</" + name + "> without its beginning";
      open.pop_back();
    } else if (!tag.ends_with('/') && !without_end.contains(name)) {
      open.push_back(name);
    }
  }
  return open.empty() ? "" : "<" + open.back() + "> is not closed";
}

/// What must hold of every page.
void expect_sound(const std::string& html) {
  EXPECT_EQ(tag_error(html), "");
  for (const char* never :
       {"<script", "<img", "<iframe", "http:", "https:", "src=", "url(", "javascript:", "nan", "inf\""}) {
    EXPECT_EQ(html.find(never), std::string::npos) << never << ": " << html.substr(html.find(never) - 60, 120);
  }
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
                .samples = 64,
                .learning_rate = 1e-3 / static_cast<double>(step + 1),
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
  void write(const std::string& name, const std::string& text) { write_durably(folder_ / name, text); }

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

TEST(Html, NumbersAreAsPeopleReadThem) {
  EXPECT_EQ(page::with_commas(0), "0");
  EXPECT_EQ(page::with_commas(-1234567), "-1,234,567");
  EXPECT_EQ(page::duration(1.5e-4), "150 us");
  EXPECT_EQ(page::duration(0.0125), "12.5 ms");
  EXPECT_EQ(page::duration(200), "3 min 20 s");
  EXPECT_EQ(page::duration(7260), "2 h 1 min");
  EXPECT_EQ(page::bytes(159168), "155 KiB");
  EXPECT_EQ(page::bytes(1023), "1023 B");
  EXPECT_EQ(page::percent(0.97051, 2), "97.05 %");
  EXPECT_EQ(page::coordinate(-0.001), "0");
  EXPECT_EQ(page::number(std::nan("")), "not a number");
}

TEST(LineChart, LargeRangesGetALogarithmicAxis) {
  const std::string wide = page::line_chart({.y_name = "Loss"}, {{.points = {{0, 3.0}, {1, 0.01}}}});
  EXPECT_NE(wide.find("Loss, logarithmic"), std::string::npos);
  const std::string narrow = page::line_chart({.y_name = "Loss"}, {{.points = {{0, 3.0}, {1, 1.0}}}});
  EXPECT_EQ(narrow.find("logarithmic"), std::string::npos);
}

TEST(LineChart, NumbersThatAreNoneLeaveAGap) {
  const double none = std::nan("");
  const std::string chart =
      page::line_chart({}, {{.points = {{0, 1}, {1, none}, {2, 2}, {3, 3}}, .has_markers = true}});
  const auto line = chart.find("class=\"line");
  const std::string path = chart.substr(chart.find(" d=\"", line), 200);
  EXPECT_EQ(std::count(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(path.find('/')), 'M'), 2) << path;
  expect_sound(chart);
}

TEST(LineChart, OddSeriesAreDrawnToo) {
  for (const page::Points& points : {page::Points{},
                                     {{0, 0}},
                                     {{1, 5}},
                                     {{0, -1}, {1, -1}},
                                     {{2, 1e300}, {3, 1e-300}},
                                     {{0, std::nan("")}},
                                     {{0, std::numeric_limits<double>::infinity()}, {1, 2}}}) {
    for (const bool share : {false, true}) {
      expect_sound(page::line_chart({.as_percent = share}, {{.points = points, .has_markers = true}}));
    }
  }
}

TEST(LineChart, LongSeriesAreThinnedToMeans) {
  page::Points points;
  for (int i = 0; i < 1000; ++i) points.emplace_back(i, i);
  const page::Points thin = page::thinned(points, 10);
  ASSERT_EQ(thin.size(), 10u);
  EXPECT_EQ(thin[0], (std::pair<double, double>(99, 49.5)));
  EXPECT_EQ(page::thinned(points, 1000), points);
}

TEST_F(Page, ShowsWhatARunLeft) {
  for (const int rank : {0, 1, 2})
    write_steps(folder_.path(), rank, 200, rank == 2 ? 2e-3 : 1e-3, rank == 2 ? 0 : 1e-3);
  write("report.json", to_json(example_report()));
  write("options.json", R"({"model": "resnet18", "lr": "0.05"})");
  write(
      "buckets.json",
      R"([{"bytes":1024,"start_seconds":0.001,"wait_seconds":0},{"bytes":4096,"start_seconds":0.002,"wait_seconds":0.0005}])");
  write("log.txt", "2026-03-01 12:00:00.000 rank 0: hello from the log\n");
  const std::string html = page_of_run();
  expect_sound(html);
  for (const char* part :
       {"resnet18 on mercer", "80.00 %", "forest", "taken for <b>river</b> 10 times", "hello from the log",
        "<b>Rank 2 is a straggler</b>", "2 times what the other ranks take", "100 % of the steps", "2 buckets", "0.05",
        "12,346", "3 &times; 32", "ab12", "Test accuracy"}) {
    EXPECT_NE(html.find(part), std::string::npos) << part;
  }
  EXPECT_NE(html.find("prefers-color-scheme:dark"), std::string::npos);
  EXPECT_NE(html.find("Content-Security-Policy"), std::string::npos);
}

TEST_F(Page, HostileTextsStayTexts) {
  const std::string evil = "</style></title><script>alert(1)</script><img src=x onerror=alert(2)>\"' \xFF";
  RunReport report = example_report();
  report.class_names = {"<script>alert(1)</script>", "\" onmouseover=\"alert(1)"};
  report.model = "</title><script>alert(3)</script>";
  write("report.json", to_json(report));
  write("options.json", option_texts_to_json({{evil, evil}, {"trace", "/nowhere/<script>"}}));
  write("log.txt", evil + "\n");
  write_steps(folder_.path(), 0, 20, 1e-3, 0);
  const std::string html = page_of_run();
  EXPECT_EQ(tag_error(html), "");
  for (const char* never : {"<script", "<img", "\" onmouseover", "</style></title>"}) {
    EXPECT_EQ(html.find(never), std::string::npos) << never;
  }
  EXPECT_NE(html.find("&lt;script&gt;alert(1)"), std::string::npos);
}

TEST_F(Page, WhatIsMissingIsSaid) {
  EXPECT_NE(error_of([&] { read_run(folder_.path()); }).find("no run has written into"), std::string::npos);
  EXPECT_NE(error_of([&] { read_run(folder_ / "nowhere"); }).find("nowhere is no folder"), std::string::npos);

  write_steps(folder_.path(), 1, 50, 1e-3, 1e-4);  // rank 0 was on another host
  std::string html = page_of_run();
  expect_sound(html);
  for (const char* part : {"there is no report.json", "steps of 1 of 2 ranks are here", "the options are not known",
                           "there is no message timeline"}) {
    EXPECT_NE(html.find(part), std::string::npos) << part;
  }

  write("report.json", "{\"epochs\": [{\"epoch\": \"x\"}]}");
  write("buckets.json", "{");
  write("options.json", "[]");
  html = page_of_run();
  expect_sound(html);
  EXPECT_NE(html.find("the results of report.json cannot be shown"), std::string::npos);
  EXPECT_NE(html.find("the buckets cannot be shown"), std::string::npos);

  write("report.json", to_json(example_report()));
  std::filesystem::remove(steps_file(folder_.path(), 1));
  html = page_of_run();
  expect_sound(html);
  EXPECT_NE(html.find("there are no records of steps"), std::string::npos);
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
  expect_sound(page_of_run());
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
  expect_sound(html);
  EXPECT_LT(html.size(), 400'000u);
  EXPECT_NE(html.find("20,000 operations were traced"), std::string::npos);
  EXPECT_NE(html.find("(sum float32 x 100), 400 bytes by ring, 50.2 us"), std::string::npos);
}

TEST_F(Page, ATraceThatIsNoneIsSaid) {
  write_steps(folder_.path(), 0, 20, 1e-3, 0);
  write("no_trace", "hello\n");
  RunData run = read_run(folder_.path());
  add_trace(run, folder_ / "no_trace");
  add_trace(run, folder_ / "nowhere");
  ASSERT_GE(run.remarks.size(), 2u);
  EXPECT_NE(run.remarks[run.remarks.size() - 2].find("no_trace is no trace of tutti train"), std::string::npos);
  EXPECT_NE(run.remarks.back().find("cannot read " + (folder_ / "nowhere").string()), std::string::npos);
}

TEST_F(Page, ManyClassesAndRanksFit) {
  RunReport report = example_report();
  report.world_size = 100;
  for (const std::size_t classes : {21u, 101u}) {
    report.confusion_matrix.assign(classes, std::vector<std::int64_t>(classes, 1));
    write("report.json", to_json(report));
    for (int rank = 0; rank < 100; ++rank) write_steps(folder_.path(), rank, 12, rank == 70 ? 3e-3 : 1e-3, 1e-4);
    const std::string html = page_of_run();
    expect_sound(html);
    EXPECT_NE(html.find("Shown are the 64 slowest of 100 ranks"), std::string::npos);
    EXPECT_NE(html.find("<b>Rank 70 is a straggler</b>"), std::string::npos);
    EXPECT_EQ(html.find("report.json has the whole matrix") != std::string::npos, classes > 100);
  }
}

}  // namespace
}  // namespace tutti::trainer
