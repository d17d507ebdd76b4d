// The lab `scaling` without running a training: plans, the fitted model, the questions, the page.

#include <gtest/gtest.h>
#include <tutti/tests/labs/lab_folder.h>
#include <tutti/tools/labs/scaling/check.h>
#include <tutti/tools/labs/scaling/measure.h>
#include <tutti/tools/labs/scaling/page.h>
#include <tutti/tools/labs/scaling/questions.h>

#include <cmath>
#include <string>
#include <vector>

namespace tutti::labs::scaling {
namespace {

constexpr int kCores = 4;

/// What a host that obeys the model would measure.
Results measured_by(const Model& truth, const std::vector<Layout>& layouts) {
  Results results;
  results.cores = kCores;
  results.plan.layouts = layouts;
  for (const Layout& layout : layouts) {
    Timing run;
    run.steps = static_cast<std::int64_t>(std::ceil(1876.0 / layout.ranks));
    const Features features = features_of(layout, static_cast<double>(run.steps), kCores);
    run.compute = truth.step * features.work;
    run.waiting = truth.round * features.rounds;
    run.seconds = truth.seconds(features);
    Timing slower = run, faster = run;
    slower.seconds *= 1.5;
    faster.seconds *= 0.99;
    results.rows.push_back({layout, {slower, run, faster}});
  }
  return results;
}

const std::vector<Layout> kLayouts{{.ranks = 1}, {.ranks = 2}, {.ranks = 4}, {.ranks = 8}, {.ranks = 1, .threads = 2}};

TEST(ScalingModel, FindsTheCoefficientsThatMadeTheTimes) {
  const Model truth{.fixed = 0.4, .step = 250e-6, .round = 60e-6};
  const Model model = fitted(measured_by(truth, kLayouts));
  EXPECT_NEAR(model.fixed, truth.fixed, 1e-6);
  EXPECT_NEAR(model.step, truth.step, 1e-9);
  EXPECT_NEAR(model.round, truth.round, 1e-9);
  EXPECT_LT(model.worst_error, 1e-6);
}

TEST(ScalingModel, OneDisturbedLayoutAmongManyDoesNotBendIt) {
  const Model truth{.fixed = 0.4, .step = 250e-6, .round = 60e-6};
  std::vector<Layout> layouts = kLayouts;
  layouts.insert(layouts.end(), {{.ranks = 3}, {.ranks = 2, .threads = 2}, {.ranks = 1, .threads = 4}});
  Results results = measured_by(truth, layouts);
  for (Timing& run : results.rows[2].runs) run.seconds *= 1.8;
  const Model model = fitted(results);
  EXPECT_NEAR(model.fixed, truth.fixed, 0.1 * truth.fixed);
  EXPECT_NEAR(model.step, truth.step, 0.1 * truth.step);
}

TEST(ScalingModel, NoCoefficientIsNegative) {
  Results results = measured_by({.fixed = 0.4, .step = 250e-6, .round = 60e-6}, kLayouts);
  for (Timing& run : results.rows[1].runs) run.seconds = 0.1;  // faster than the model can be
  for (Timing& run : results.rows[3].runs) run.seconds = 0.05;
  const Model model = fitted(results);
  EXPECT_GE(model.fixed, 0);
  EXPECT_GE(model.step, 0);
  EXPECT_GE(model.round, 0);
  const Results one = measured_by({.fixed = 0.4, .step = 250e-6, .round = 60e-6}, {{.ranks = 1}});
  EXPECT_LT(fitted(one).worst_error, 1e-6);  // under-determined, and no disaster
}

TEST(ScalingQuestions, AreAnsweredByTheMeasurements) {
  const Model truth{.fixed = 0.4, .step = 250e-6, .round = 60e-6};
  Results results = measured_by(truth, kLayouts);
  results.plan.epochs = 2;
  std::vector<std::string> right{"4x1", "", "", "118", "", "", "0.4", ""};
  const std::vector<Question> questions = questions_of(results, fitted(results));
  ASSERT_EQ(questions.size(), right.size());
  EXPECT_EQ(largest(results).layout.name(), "8x1");
  const double first = 0.4 + 1876 * 250e-6, last = 0.4 + 235 * 2 * 250e-6 + 235 * 3 * 60e-6;
  right[1] = std::to_string(first / last);
  right[2] = std::to_string(100 * first / last / 8) + " %";
  right[4] = std::to_string(100 * 235 * 3 * 60e-6 / last);
  right[5] = "rest";
  right[7] = std::to_string(0.4 + 235 * 250e-6 + 235 * 3 * 60e-6) + " s";
  for (std::size_t i = 0; i < questions.size(); ++i) {
    EXPECT_TRUE(questions[i].accepts(right[i])) << questions[i].name << ": " << right[i];
    EXPECT_FALSE(questions[i].accepts("7777")) << questions[i].name;
    EXPECT_FALSE(questions[i].accepts("I do not know")) << questions[i].name;
    EXPECT_FALSE(questions[i].hint.empty());
  }
}

TEST(ScalingPlan, ReadsLayoutsAndNamesTheLineThatIsWrong) {
  const LabFolder folder("scaling");
  folder.write("layouts.txt", "model: lenet5  # larger\nrepeats: 2\n1x1\n4x1 red01:2,orange07:2\n");
  const Plan plan = read_plan(folder.path() / "layouts.txt");
  EXPECT_EQ(plan.model, "lenet5");
  ASSERT_EQ(plan.layouts.size(), 2u);
  EXPECT_EQ(plan.layouts[1].most_on_a_host(), 2);
  const auto command = command_of(plan, plan.layouts[1], "tutti", "runs");
  EXPECT_EQ(command[2], "-H");
  EXPECT_EQ(command[3], "red01:2,orange07:2");
  for (const char* wrong : {"1y1", "0x1", "1x", "2x1 a b", "model: vgg", "colour: red", "2x1 $(reboot)"}) {
    folder.write("layouts.txt", std::string("1x1\n") + wrong + "\n");
    try {
      read_plan(folder.path() / "layouts.txt");
      ADD_FAILURE() << wrong << " was taken";
    } catch (const std::runtime_error& error) {
      EXPECT_NE(std::string(error.what()).find("layouts.txt, line 2"), std::string::npos) << error.what();
    }
  }
}

TEST(ScalingCheck, GradesAnswersAgainstResultsThatBelongToTheLayouts) {
  const LabFolder folder("scaling");
  folder.append("layouts.txt", "2x1\n4x1\n8x1\n1x2\n");
  Results results = measured_by({.fixed = 0.4, .step = 250e-6, .round = 60e-6}, kLayouts);
  results.plan = read_plan(folder.path() / "layouts.txt");
  folder.write("results.json", to_json(results));
  std::string answers;
  for (const Question& question : questions_of(results, fitted(results))) {
    answers +=
        question.name + ": " + (question.right.empty() ? std::to_string(question.number) : question.right[0]) + "\n";
  }
  CheckContext context;
  context.folder = folder.path();
  Report report = check(context);
  EXPECT_EQ(report.points(), 20);
  ASSERT_NE(report.first_finding(), nullptr);
  EXPECT_EQ(report.first_finding()->diagnosis, kNoAnswer);
  folder.write("answers.txt", answers);
  report = check(context);
  EXPECT_TRUE(report.passed()) << (report.first_finding() ? report.first_finding()->text : "");
  EXPECT_EQ(report.of(), 100);
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "scaling.html"));
  folder.write("answers.txt", answers + "speedup: 9\n");
  report = check(context);
  EXPECT_EQ(report.points(), 90);
  EXPECT_EQ(report.first_finding()->text, "speedup: '9' is not what was measured");
  folder.write("results.json", "{}");
  report = check(context);
  ASSERT_TRUE(report.failure);
  EXPECT_NE(report.failure->text.find("delete it"), std::string::npos) << report.failure->text;
}

TEST(ScalingCheck, TheUntouchedFolderIsToldWhatIsMissing) {
  const LabFolder folder("scaling");
  CheckContext context;
  context.folder = folder.path();
  const Report report = check(context);
  EXPECT_EQ(report.points(), 0);
  ASSERT_NE(report.first_finding(), nullptr);
  EXPECT_EQ(report.first_finding()->diagnosis, kFewLayouts);
}

TEST(ScalingPage, IsWholeAndEscaped) {
  Results results = measured_by({.fixed = 0.4, .step = 250e-6, .round = 60e-6}, kLayouts);
  results.plan.model = "<b>";
  const std::string page = page_of(results, fitted(results));
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("<b> on MNIST"), std::string::npos);
  EXPECT_NE(page.find("&lt;b&gt; on MNIST"), std::string::npos);
  EXPECT_NE(page.find("8x1"), std::string::npos);
  EXPECT_NE(page.find("</html>"), std::string::npos);
}

}  // namespace
}  // namespace tutti::labs::scaling
