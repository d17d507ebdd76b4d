// Hints: where to look, without the answer.

#include <tutti/tools/labs/diagnosis.h>
#include <tutti/tools/labs/grade.h>

#include <map>

namespace tutti::labs {
namespace {

using namespace diagnosis;

const std::map<std::string, std::string>& general_hints() {
  static const std::map<std::string, std::string> hints = {
      {kDoesNotCompile, "Begin with the first message of the compiler; the others often follow from it."},
      {kNotRegistered, "Put the macro back at the end of the file, outside of any namespace."},
      {kOnlyPowersOfTwo,
       "Draw the partners of each round for 6 ranks. Which of them do not exist, and who is left without one?"},
      {kHardCodedWorldSize, "Look for the number itself in your code; ranks.world_size() knows how many there are."},
      {kOnlyEvenWorlds, "Draw who talks to whom with 3 ranks."},
      {kOnlySmallWorlds,
       "Draw the messages for the first number of ranks that fails, and compare with the last one that works."},
      {kWorldOfOne, "What is left to do when nobody else is there?"},
      {kWrongRoot,
       "Follow the data with root 2: where does it begin, where does it end? Numbers relative to the root help: "
       "(rank - root + p) mod p."},
      {kLastChunk, "With 13 elements for 4 ranks the chunks cannot all have the same length: add yours up."},
      {kFewElements, "With 1 element for 4 ranks three chunks are empty. What are their offsets and lengths?"},
      {kNoElements, "Nothing is also a length."},
      {kWrongOperator, "Combine by op(into, from) only, and begin with an element, not with 0."},
      {kWrongType, "T is not always double: look for a type that is written out."},
      {kMessageOrder, "Which message can a recv get that you did not mean? Source and tag say which one is meant."},
      {kLongMessages, "A send of a long message does not return before it is received. Who receives while all send?"},
      {kSecondCall,
       "A message of the second call can arrive before a rank has ended the first. What tells them apart? What is "
       "kept between calls?"},
      {kTooManyMessages, "Count the messages on paper for 4 ranks. Which carry what the receiver has already?"},
      {kTooManyBytes,
       "Count the bytes on paper for 4 ranks. Which are sent twice to the same rank, or never needed there?"},
      {kQuadraticBytes, "If everybody sends everything to everybody, twice the ranks send four times the bytes."},
      {kTooManyRounds, "Which messages could travel at the same time, since neither needs what the other brings?"},
      {kSlowPath, "A rank sends one message at a time. Who stands in line, and could somebody else send instead?"},
      {kMessageTooLong, "How much may be in one message?"},
      {kWrongResult, "Take the smallest case that fails, and write down what each rank holds after each message."},
      {kOnlyAtRoot, "Who tells the others?"},
      {kMissingRank, "Follow that rank's elements: where do they get lost?"},
      {kTwice, "Follow that rank's elements: by which two ways do they arrive?"},
      {kMisplaced, "Compare the offset at which a chunk is sent with the one at which it is received."},
      {kUntouched, "Does that rank receive anything, and where does it put it?"},
      {kUninitialised, "Which of your arrays is read before it is filled? The first combination is a copy."},
      {kReadBeforeWait, "irecv only begins to receive."},
      {kReusedBeforeWait, "isend only begins to send: until wait() returns the memory belongs to the message."},
      {kNeverWaited, "Keep the Request, and call its wait()."},
      {kInputChanged, "Build the partial result in memory of your own."},
      {kOutsideBuffer, "Check offset + length of that access against size()."},
      {kRanksDiffer,
       "Sums of floating point numbers depend on the order of adding: let one rank's sum of each element be "
       "everybody's."},
      {kDeadlock, "Write down each rank's next call: each waits for a partner who does something else."},
      {kLengthMismatch, "Both ends compute that length: compare the two formulas for these two ranks."},
      {kNoSuchRank, "Compute that partner's number on paper for this number of ranks."},
      {kLeftOver, "Each send needs its recv, with the same tag."},
      {kBarrierLeaks, "Before it leaves, a rank must have heard, directly or through others, from everybody."},
      {kCrash, "Compile with -g -fsanitize=address and try the case by yourself: README of the folder."},
      {kThrew, "The text of the exception says what was wrong."},
      {kEndlessLoop, "Which variable should change in that loop, and does it?"},
      {kEarlyExit, "Return from the function; do not end the program."},
      {kStartsProcesses, "The grader starts the ranks; a solution is messages and arithmetic only."},
      {kOpensFiles, "A solution needs no files. Write to std::fprintf(stderr, ...) what you want to see."},
      {kNetworkAccess, "Everything goes through ranks.send() and ranks.recv()."},
      {kSleeps, "Waiting some time does not order messages; receiving one does."},
      {kSignalsOthers, "A solution is messages and arithmetic only."},
      {kForbidden, "A solution is messages and arithmetic only."},
      {kTooMuchOutput, "Print less: a line for a message is plenty."},
      {kOutOfMemory, "How long is the largest array that you make?"},
      {kTooManyRequests, "A loop that sends without end?"},
      {kBreaksProtocol, "Talk through ranks only."},
  };
  return hints;
}

}  // namespace

std::string hint_for(const Lab& lab, const Stage* stage, const std::string& found) {
  if (const auto own = lab.hints.find(found); own != lab.hints.end()) return own->second;
  if (stage != nullptr && !stage->hint.empty()) return stage->hint;
  const auto general = general_hints().find(found);
  return general == general_hints().end() ? "" : general->second;
}

}  // namespace tutti::labs
