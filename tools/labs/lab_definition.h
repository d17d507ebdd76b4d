// Lab: what `tutti lab` knows about one exercise. The folder exercises/NAME holds what a student gets (text.md,
// NAME.cc, CMakeLists.txt) and lab.cc, with one function, `Lab NAME_lab()`, declared by this header's users through the
// catalogue: a name in the list of tools/labs/CMakeLists.txt is all that adds a lab.
//
// A lab is graded by its stages: cases that differ from each other along one axis, so that which of them fail says what
// is wrong. A lab that is graded otherwise (figures to be measured, a plot) sets `check` instead.
#pragma once

#include <tutti/tools/labs/lab_case.h>
#include <tutti/tools/labs/report.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace tutti::labs {

class Submission;

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

struct Stage {
  std::string name;   // in JSON: "worlds"
  std::string title;  // in the table: "any number of ranks"
  int points = 10;    // all or none, but see Axis::Worlds .. in grade.h
  Axis axis = Axis::Worlds;
  std::vector<Case> cases{};
  std::function<Allowance(const Case&)> bound{};  // Axis::Cost only
  std::string bound_text{};                       // "ceil(lg p) rounds, (p - 1) n bytes"
  std::string hint{};                             // when it fails; empty: what hints.h says about the diagnosis
};

/// What a lab with a check of its own is given.
struct CheckContext {
  std::filesystem::path folder;                        // the student's
  std::function<void(const std::string&)> progress{};  // a line for people who wait
};

struct Lab {
  std::string name;        // of the folder in exercises/, of the source in it, and on the command line
  std::string title;       // one line for `tutti lab list`
  std::string function;    // what the student writes, as lab.h's macros name it: "reduce"
  std::string first_step;  // told with an untouched skeleton: what to do first
  std::vector<Stage> stages{};
  std::map<std::string, std::string> hints{};  // by diagnosis (diagnosis.h), instead of the general ones
  std::function<Report(const CheckContext&)> check{};
};

/// The usual axes for functions of lab.h, each with the cases that found most of what students get wrong. `points` of
/// the stages are set by the caller where they should differ.
Stage worlds_stage(const std::string& function, int points);
Stage roots_stage(int points);
Stage counts_stage(int points);
Stage types_stage(int points);
Stage order_stage(int points);
Stage long_stage(int points);
Stage repeats_stage(int points);

/// Cases for messages and bytes in worlds of 2 to 8 ranks, `count` float64 each.
Stage cost_stage(int points, std::size_t count, std::function<Allowance(const Case&)> bound, std::string bound_text);

}  // namespace tutti::labs
