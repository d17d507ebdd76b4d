// Lab: what `tutti lab` knows about one exercise. The folder exercises/NAME holds what a student gets (text.md and
// NAME.cc, or the files of a lab without a source); exercises.cc declares all labs.
//
// A lab is graded by its stages: cases that differ from each other along one axis, so that which of them fail says what
// is wrong. A lab that is graded otherwise (figures to be measured, answers to questions) sets `check` instead.
#pragma once

#include <tutti/tools/labs/lab_case.h>
#include <tutti/tools/labs/report.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace tutti::labs {

/// What a case may cost; 0: not bounded. Ranks count what they send and what they receive each by itself.
struct Allowance {
  double messages = 0;       // of all ranks together
  double bytes = 0;          // of all ranks together
  double rank_messages = 0;  // that the busiest rank sends, or receives
  double rank_bytes = 0;     // that the busiest rank sends, or receives
  double rounds = 0;         // messages one behind another until the last rank is done (time with alpha = 1, beta = 0)
  double path_bytes = 0;     // bytes one behind another until the last rank is done (time with alpha = 0, beta = 1)
  double message_bytes = 0;  // of the longest message
};

enum class Axis {
  Worlds,   // world_size varies
  Roots,    // root varies
  Counts,   // count varies, also those that world_size does not divide
  Types,    // type and op vary
  Order,    // messages are late, and overtake each other where they may
  Long,     // messages wait for their receiver
  Repeats,  // several calls one behind the other
  Cost,     // messages, bytes and steps against `bound`
};

using Bound = Allowance (*)(const Case&);

struct Stage {
  std::string name;   // in JSON: "worlds"
  std::string title;  // in the table: "any number of ranks"
  int points = 10;    // by the share of its cases that are right; cost: all or none
  Axis axis = Axis::Worlds;
  std::vector<Case> cases{};
  Bound bound = nullptr;  // Axis::Cost only
};

/// What a lab with a check of its own is given.
struct CheckContext {
  std::string lab;                                     // its name
  std::filesystem::path folder;                        // the student's
  std::function<void(const std::string&)> progress{};  // a line for people who wait
};

struct Lab {
  std::string name;          // of the folder, of the source file in it, and on the command line
  std::string title;         // one line for `tutti lab list`
  std::string function{};    // what the student writes, as lab.h's macros name it: "reduce"
  std::string first_step{};  // told with an untouched skeleton: what to do first
  std::vector<Stage> stages{};
  Report (*check)(const CheckContext&) = nullptr;
};

/// What a call may cost, as a stage of its own.
struct CostBound {
  int points;
  const char* text;  // "ceil(lg p) rounds, (p - 1) n bytes"
  Bound allowed;
};

/// A lab about one collective of lab.h: the points of each axis, whose usual cases (collective_lab.cc) found most of
/// what students get wrong, and the bounds on cost. An axis without points is not tried.
struct CollectiveLab {
  std::string name, title, function, first_step{};
  int worlds = 0, roots = 0, counts = 0, types = 0, order = 0, long_messages = 0, repeats = 0;
  std::vector<CostBound> costs{};
  std::size_t cost_count = 1000;  // elements of each rank in the cases of cost
  std::size_t worlds_count = 0;   // elements of each rank in the cases of worlds; 0: four for each rank of the world
};
Lab lab_of(const CollectiveLab& declared);

}  // namespace tutti::labs
