// Diagnoses: the words by which the grader names what is wrong, for programs, tests and hints.
//
// Constants; hints.json says what each means.
#pragma once

namespace tutti::labs::diagnosis {

// Before grading.
inline constexpr char kDoesNotCompile[] = "does_not_compile";
inline constexpr char kNotStarted[] = "not_started";        // the function does nothing
inline constexpr char kNotRegistered[] = "not_registered";  // the macro at the end is gone

// Of answers and commands.
inline constexpr char kWrongAnswer[] = "wrong_answer";
inline constexpr char kNotUnderstood[] = "command_not_understood";
inline constexpr char kRefusedBySlurm[] = "slurm_refuses";
inline constexpr char kWrongLayout[] = "wrong_layout";
inline constexpr char kWrongTable[] = "wrong_table";

// Of a stage: which of its cases fail.
inline constexpr char kOnlyPowersOfTwo[] = "only_powers_of_two";
inline constexpr char kHardCodedWorldSize[] = "hard_coded_world_size";  // works for one world size only
inline constexpr char kOnlyEvenWorlds[] = "only_even_worlds";
inline constexpr char kOnlySmallWorlds[] = "only_small_worlds";  // works up to some size
inline constexpr char kWorldOfOne[] = "world_of_one";
inline constexpr char kWrongRoot[] = "wrong_root";                 // works for root 0 only
inline constexpr char kLastChunk[] = "last_chunk";                 // fails where world_size does not divide count
inline constexpr char kFewElements[] = "few_elements";             // fails where count < world_size
inline constexpr char kNoElements[] = "no_elements";               // fails for count 0
inline constexpr char kWrongOperator[] = "wrong_operator";         // works for sums only
inline constexpr char kWrongType[] = "wrong_type";                 // fails for some element types
inline constexpr char kMessageOrder[] = "message_order";           // fails only when messages are late
inline constexpr char kLongMessages[] = "long_messages_deadlock";  // deadlock only when sends wait for their receiver
inline constexpr char kSecondCall[] = "second_call";               // fails only when called again
inline constexpr char kTooManyMessages[] = "too_many_messages";
inline constexpr char kTooManyBytes[] = "too_many_bytes";
inline constexpr char kQuadraticBytes[] = "quadratic_bytes";
inline constexpr char kTooManyRounds[] = "too_many_rounds";  // one behind the other, where some could be at once
inline constexpr char kSlowPath[] = "slow_path";             // too many bytes one behind the other

// Of one case.
inline constexpr char kWrongResult[] = "wrong_result";
inline constexpr char kOnlyAtRoot[] = "only_at_root";              // all_reduce: right on one rank only
inline constexpr char kMissingRank[] = "missing_contribution";     // somebody's elements are not in the result
inline constexpr char kTwice[] = "counted_twice";                  // somebody's elements are in it several times
inline constexpr char kMisplaced[] = "misplaced_elements";         // right elements at wrong places
inline constexpr char kUntouched[] = "result_not_written";         // the result is what was there before
inline constexpr char kUninitialised[] = "reads_uninitialised";    // depends on memory that nobody wrote
inline constexpr char kReadBeforeWait[] = "read_before_wait";      // uses what an irecv has yet to bring
inline constexpr char kReusedBeforeWait[] = "reused_before_wait";  // changes what an isend has yet to send
inline constexpr char kNeverWaited[] = "never_waited";             // a Request was dropped without wait()
inline constexpr char kInputChanged[] = "input_overwritten";
inline constexpr char kOutsideBuffer[] = "outside_buffer";  // beyond the end of input, output or data
inline constexpr char kRanksDiffer[] = "ranks_differ";      // all_reduce: not the same bits everywhere
inline constexpr char kMessageTooLong[] = "message_too_long";
inline constexpr char kDeadlock[] = "deadlock";
inline constexpr char kTagMismatch[] = "tag_mismatch";  // ... where what is awaited has come with another tag
inline constexpr char kLengthMismatch[] = "length_mismatch";
inline constexpr char kNoSuchRank[] = "no_such_rank";
inline constexpr char kLeftOver[] = "message_left_over";  // sent and never received
inline constexpr char kBarrierLeaks[] = "left_before_all_arrived";

// What the sandbox stops.
inline constexpr char kCrash[] = "crash";
inline constexpr char kThrew[] = "exception";
inline constexpr char kEndlessLoop[] = "endless_loop";
inline constexpr char kEarlyExit[] = "exits_early";
inline constexpr char kForbidden[] = "forbidden_call";
inline constexpr char kStartsProcesses[] = "starts_processes";
inline constexpr char kOpensFiles[] = "opens_files";
inline constexpr char kNetworkAccess[] = "uses_network";
inline constexpr char kSleeps[] = "sleeps";
inline constexpr char kSignalsOthers[] = "signals_processes";
inline constexpr char kTooMuchOutput[] = "too_much_output";
inline constexpr char kOutOfMemory[] = "out_of_memory";
inline constexpr char kTooManyRequests[] = "too_many_requests";  // floods the network
inline constexpr char kBreaksProtocol[] = "breaks_protocol";     // writes to the grader's connection by itself

}  // namespace tutti::labs::diagnosis
