// The labs that are graded by answer tables: right answers, wrong ones, none.

#include <gtest/gtest.h>
#include <tutti/tests/labs/lab_folder.h>
#include <tutti/tests/support/expect_text.h>
#include <tutti/tools/labs/answers.h>
#include <tutti/tools/labs/catalogue.h>

#include <nlohmann/json.hpp>
#include <string>

namespace tutti::labs {
namespace {

class AnswersLab : public ::testing::TestWithParam<const char*> {
 protected:
  Report checked() const { return check(find_lab(GetParam()), folder_.path()); }

  /// Lines for answers.txt, with `wrong` in the place of each answer if it is not empty.
  static std::string answers(const std::string& wrong = "") {
    std::string lines;
    const auto key = nlohmann::json::parse(answer_table(GetParam(), "key.json"));
    for (const auto& question : key["questions"]) {
      const std::string right =
          question.contains("right") ? question["right"][0].get<std::string>() : question["number"].dump() + " s";
      lines += question["name"].get<std::string>() + ": " + (wrong.empty() ? right : wrong) + "\n";
    }
    return lines;
  }

  LabFolder folder_{GetParam()};
};

TEST_P(AnswersLab, AreAskedForInTheStudentsFolder) {
  const std::string text = read_text(folder_.path() / "text.md").value_or("");
  const std::string blank = read_text(folder_.path() / "answers.txt").value_or("");
  const auto key = nlohmann::json::parse(answer_table(GetParam(), "key.json"));
  for (const auto& question : key["questions"]) {
    test::expect_parts(blank, {"\n" + question["name"].get<std::string>() + ":\n"});
    EXPECT_FALSE(question["hint"].get<std::string>().empty());
  }
  test::expect_parts(text, {"tutti lab check " + std::string(GetParam())});
}

TEST_P(AnswersLab, TheRightOnesHaveFullMarks) {
  folder_.write("answers.txt", answers());
  const Report report = checked();
  EXPECT_TRUE(report.passed()) << (report.first_finding() ? report.first_finding()->text : "");
  EXPECT_EQ(report.of(), 100);
}

TEST_P(AnswersLab, WrongOnesAreToldAndNotGivenAway) {
  folder_.write("answers.txt", answers("7777"));
  const Report report = checked();
  EXPECT_EQ(report.points(), 0);
  ASSERT_NE(report.first_finding(), nullptr);
  EXPECT_EQ(report.first_finding()->diagnosis, "wrong_answer");
  EXPECT_EQ(report.first_finding()->text, report.stages[0].name + ": '7777' is not right");
}

TEST_P(AnswersLab, TheUntouchedFolderIsToldWhatIsMissing) {
  const Report report = checked();
  EXPECT_EQ(report.points(), 0);
  ASSERT_NE(report.first_finding(), nullptr);
  EXPECT_EQ(report.first_finding()->diagnosis, "not_started");
  EXPECT_FALSE(report.first_finding()->hint.empty());
}

INSTANTIATE_TEST_SUITE_P(Labs, AnswersLab, ::testing::Values("download", "scaling"));

TEST(Answers, NumbersHaveATolerance) {
  const LabFolder folder("scaling");
  const auto points = [&](const std::string& answer) {
    folder.write("answers.txt", "speedup: " + answer + "\n");
    return check(find_lab("scaling"), folder.path()).points();
  };
  for (const char* answer : {"1.81", "1,8", "1.86", "1.8 times"}) EXPECT_EQ(points(answer), 10) << answer;
  for (const char* answer : {"1.9", "1.7", "-1.81", "1.81 2", "I do not know"}) EXPECT_EQ(points(answer), 0) << answer;
}

TEST(Answers, BlanksAndCommasBetweenWordsAreAsOne) {
  const LabFolder folder("download");
  for (const char* answer : {"3 5 7 8 9", "3,5,7,8,9", " 3, 5,  7, 8, 9  # done"}) {
    folder.write("answers.txt", std::string("right: ") + answer + "\n");
    EXPECT_EQ(check(find_lab("download"), folder.path()).points(), 20) << answer;
  }
}

TEST(Answers, AFolderWithoutAnswersIsAnError) {
  const LabFolder folder("scaling");
  std::filesystem::remove(folder.path() / "answers.txt");
  const auto checks = [&] { check(find_lab("scaling"), folder.path()); };
  EXPECT_THROW(checks(), std::runtime_error);
  test::expect_parts(trainer::error_of(checks), {"'tutti lab start scaling"});
}

}  // namespace
}  // namespace tutti::labs
