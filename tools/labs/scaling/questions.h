// The questions of the lab `scaling`, and what the student's own measurements answer to them.
#pragma once

#include <tutti/tools/labs/scaling/model.h>

#include <string>
#include <vector>

namespace tutti::labs::scaling {

struct Question {
  std::string name;                  // in answers.txt
  std::string title;                 // for the table
  std::string hint;                  // how to find it
  std::vector<std::string> right{};  // words of which each is right; empty: a number
  double number = 0;
  double tolerance = 0;  // absolute

  bool accepts(const std::string& answer) const;
};

/// `results` has at least one row. Questions about "the largest layout" mean the first of those with most ranks.
std::vector<Question> questions_of(const Results& results, const Model& model);

/// The row that the questions call the largest layout.
const Row& largest(const Results& results);

}  // namespace tutti::labs::scaling
