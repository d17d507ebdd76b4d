// All labs, in the order in which they are best done, and what a call of their functions may cost.

#include <tutti/tools/labs/answers.h>
#include <tutti/tools/labs/catalogue.h>
#include <tutti/tools/labs/layouts/commands.h>
#include <tutti/tools/labs/measured/measured.h>

#include <algorithm>
#include <bit>

namespace tutti::labs {
namespace {

// Bounds are written for p = posed.world_size ranks and n = posed.bytes() bytes.

unsigned ranks_of(const Case& posed) { return static_cast<unsigned>(posed.world_size); }
double rounds_of_doubling(unsigned ranks) { return std::bit_width(ranks - 1); }  // ceil(log2)

Allowance messages_of(const Case& posed, double messages) {
  return {.messages = messages, .bytes = messages * static_cast<double>(posed.bytes())};
}

/// broadcast, reduce: each rank but the root gets, or hands over, the data once.
Allowance tree_messages(const Case& posed) { return messages_of(posed, posed.world_size - 1); }

/// The ranks that have the data, or whose data are gathered, double in each round.
Allowance tree_rounds(const Case& posed) { return {.rounds = rounds_of_doubling(ranks_of(posed))}; }

Allowance dissemination_messages(const Case& posed) {
  return {.messages = posed.world_size * rounds_of_doubling(ranks_of(posed))};
}

Allowance one_message_each(const Case& posed) { return messages_of(posed, posed.world_size); }
Allowance all_at_once(const Case&) { return {.rounds = 1}; }

/// Recursive doubling's: q log2(q) for the largest power of two q, and two for each rank beyond. Trees take 2 (p - 1),
/// never more.
Allowance doubling_messages(const Case& posed) {
  const unsigned p = ranks_of(posed), q = std::bit_floor(p);
  return messages_of(posed, q * rounds_of_doubling(q) + 2 * (p - q));
}

/// A rank that serves a left-over one takes it in, hands the result out, and lets messages wait meanwhile.
constexpr int kLeftOverRounds = 4;

Allowance doubling_rounds(const Case& posed) {
  const unsigned p = ranks_of(posed), q = std::bit_floor(p);
  return {.rounds = rounds_of_doubling(q) + (q < p ? kLeftOverRounds : 0)};
}

Allowance halving_bytes(const Case& posed) {
  const unsigned p = ranks_of(posed), q = std::bit_floor(p);
  return {.rank_bytes = static_cast<double>(posed.bytes()) * (2.0 * (q - 1) / q + (q < p ? 1 : 0))};
}

Allowance halving_rounds(const Case& posed) {
  const unsigned p = ranks_of(posed), q = std::bit_floor(p);
  return {.rounds = 2 * rounds_of_doubling(q) + (q < p ? kLeftOverRounds : 0)};
}

double ring_hops(const Case& posed) { return 2.0 * (posed.world_size - 1); }

double longest_chunk_bytes(const Case& posed) {
  const std::size_t p = ranks_of(posed);
  return static_cast<double>((posed.count + p - 1) / p * size_of(posed.type));
}

Allowance ring_bytes(const Case& posed) { return {.rank_bytes = ring_hops(posed) * longest_chunk_bytes(posed)}; }

Allowance ring_rounds(const Case& posed) {
  const double hops = ring_hops(posed);
  return {.rank_messages = hops, .rounds = hops, .path_bytes = hops * longest_chunk_bytes(posed)};
}

/// Buckets when tensors are taken in their order and never cut.
double buckets_of(const Case& posed) {
  const std::size_t limit = posed.parameter / size_of(posed.type);
  double buckets = 0;
  std::size_t filled = limit + 1;  // nothing fits
  for (const std::size_t count : posed.counts) {
    const bool fits = filled + count <= limit;
    filled = fits ? filled + count : count;
    buckets += fits ? 0 : 1;
  }
  return buckets;
}

/// A ring's, which sends the most messages of all good algorithms: 2 (p - 1) from each rank. So the bound holds
/// whatever all_reduce the student brings along.
Allowance bucket_messages(const Case& posed) {
  const double rounds = buckets_of(posed) * ring_hops(posed);
  return {.messages = rounds * posed.world_size, .rounds = rounds};
}

Allowance no_longer_than_a_bucket(const Case& posed) {
  const std::size_t longest = posed.counts.empty() ? 0 : *std::ranges::max_element(posed.counts);
  return {.message_bytes = static_cast<double>(std::max<std::size_t>(posed.parameter, longest * size_of(posed.type)))};
}

/// Weights and biases of a small net: long and short in turns, none of which fills a bucket by itself.
std::vector<std::size_t> weights_and_biases(std::size_t layers) {
  std::vector<std::size_t> counts;
  for (std::size_t layer = 0; layer < layers; ++layer) counts.insert(counts.end(), {4 + layer % 3, 1});
  return counts;
}

/// The usual cases with a list of tensors in the place of one array.
Lab bucketing() {
  Lab lab = lab_of({.name = "bucketing",
                    .title = "Many gradients in few messages",
                    .function = "all_reduce_many",
                    .first_step = "Call all_reduce(ranks, tensor, op) for each tensor. The results are right then; the "
                                  "cost comes next.",
                    .worlds = 20,
                    .counts = 25,
                    .types = 10,
                    .order = 10,
                    .long_messages = 10,
                    .costs = {{15, "no more messages than the buckets need", bucket_messages},
                              {10, "no message longer than a bucket", no_longer_than_a_bucket}}});
  const std::vector<std::vector<std::size_t>> lengths = {{5},       {16, 16},  {31, 1, 1}, {33}, {3, 100, 3},
                                                         {100, 50}, {0, 4, 0}, {0},        {}};
  for (Stage& stage : lab.stages) {
    if (stage.axis == Axis::Counts) {
      stage.title = "tensors of any lengths, the last bucket";
      stage.cases.assign(lengths.size(), Case{.world_size = 3});
    }
    for (std::size_t i = 0; i < stage.cases.size(); ++i) {
      Case& posed = stage.cases[i];
      posed.parameter = 256;  // bytes of a bucket
      posed.counts = {3, 1, 20, 2, 30, 5};
      if (stage.axis == Axis::Counts) posed.counts = lengths[i];
      if (stage.axis == Axis::Cost) posed.counts = weights_and_biases(40);
    }
  }
  return lab;
}

const std::vector<CollectiveLab>& collective_labs() {
  static const std::vector<CollectiveLab> labs = {
      {.name = "broadcast",
       .title = "The root's array on all ranks, by a tree",
       .function = "broadcast",
       .first_step = "With two ranks and root 0: let rank 0 send data to rank 1, and rank 1 receive it. Then let the "
                     "root send to every other rank.",
       .worlds = 25,
       .roots = 15,
       .counts = 10,
       .types = 5,
       .order = 5,
       .long_messages = 10,
       .repeats = 10,
       .costs = {{10, "p - 1 messages of n bytes", tree_messages}, {10, "ceil(log2 p) rounds", tree_rounds}}},
      {.name = "reduce",
       .title = "All ranks' elements, combined at the root, by a tree",
       .function = "reduce",
       .first_step = "With two ranks and root 0: let rank 1 send its input to rank 0, let rank 0 copy its own input to "
                     "output, receive into a vector of its own, and combine the two with op.",
       .worlds = 25,
       .roots = 15,
       .counts = 10,
       .types = 10,
       .order = 10,
       .long_messages = 5,
       .repeats = 5,
       .costs = {{10, "p - 1 messages of n bytes", tree_messages}, {10, "ceil(log2 p) rounds", tree_rounds}}},
      {.name = "barrier",
       .title = "Nobody leaves before everybody has come",
       .function = "barrier",
       .first_step =
           "With two ranks: each sends the other an empty message, and receives one. Neither can leave before "
           "the other has come.",
       .worlds = 30,
       .order = 15,
       .long_messages = 15,
       .repeats = 20,
       .costs = {{10, "p ceil(log2 p) messages", dissemination_messages}, {10, "ceil(log2 p) rounds", tree_rounds}},
       .cost_count = 0},
      {.name = "deadlock",
       .title = "Find out why a program hangs that has passed its tests, and repair it",
       .function = "shift",
       .first_step = "The skeleton works for short messages. Read which rank waits for which when they are long.",
       .worlds = 20,
       .counts = 10,
       .types = 5,
       .order = 10,
       .long_messages = 30,
       .repeats = 5,
       .costs = {{5, "one message of n bytes from each rank", one_message_each},
                 {15, "one round: all messages at once", all_at_once}}},
      {.name = "all_reduce",
       .title = "All ranks' elements, combined, on all ranks, by recursive doubling",
       .function = "all_reduce",
       .first_step = "With two ranks: let each send its data to the other and receive the other's into a vector of its "
                     "own (sendrecv), then combine the two with op.",
       .worlds = 25,
       .counts = 10,
       .types = 10,
       .order = 10,
       .long_messages = 15,
       .repeats = 10,
       // Reduce and broadcast by trees earn all but the last points.
       .costs = {{10, "q log2(q) + 2 (p - q) messages of n bytes", doubling_messages},
                 {10, "log2(q) rounds, 4 more if p > q", doubling_rounds}}},
      {.name = "ring",
       .title = "All_reduce that sends as few bytes as can be, around a ring",
       .function = "all_reduce",
       .first_step =
           "Write chunk(): n elements in p parts, one behind the other, none forgotten. Then one hop: send your "
           "own chunk to the right, receive the left neighbour's into a vector of your own (sendrecv), and "
           "combine.",
       .worlds = 25,
       .counts = 15,
       .types = 5,
       .order = 5,
       .long_messages = 15,
       .repeats = 5,
       .costs = {{15, "each rank sends and receives 2 n (p - 1) / p bytes", ring_bytes},
                 {15, "2 (p - 1) hops, all ranks at once", ring_rounds}},
       .cost_count = 1260},  // a multiple of 1 .. 7 and of 9; 8 ranks have chunks of two lengths
      {.name = "rabenseifner",
       .title = "All_reduce with the ring's bytes in a tree's rounds, by halving and doubling",
       .function = "all_reduce",
       .first_step =
           "With two ranks: write halving_rounds() (one round: rank 0 keeps the lower half, rank 1 the upper), "
           "let each send the half it gives up and receive into the memory for the other's (sendrecv), and "
           "combine. Then the way back.",
       .worlds = 25,
       .counts = 15,
       .types = 5,
       .order = 5,
       .long_messages = 15,
       .repeats = 5,
       .costs = {{15, "each rank sends and receives 2 n (q - 1) / q bytes, n more if p > q", halving_bytes},
                 {15, "2 log2(q) rounds, 4 more if p > q", halving_rounds}},
       .cost_count = 1024,  // halves go round in all worlds up to 8
       .worlds_count = 48},
  };
  return labs;
}

}  // namespace

std::vector<Lab> all_labs() {
  std::vector<Lab> labs;
  for (const CollectiveLab& declared : collective_labs()) labs.push_back(lab_of(declared));
  labs.push_back(bucketing());
  labs.push_back({.name = "latency",
                  .title = "The time of a message: alpha and beta, measured",
                  .function = "message_seconds",
                  .check = check_latency});
  labs.push_back({.name = "compare",
                  .title = "Your reduce and all_reduce, timed beside the library's",
                  .function = "all_reduce",
                  .check = check_compare});
  labs.push_back({.name = "download",
                  .title = "Data that each file system downloads once, whatever happens",
                  .check = check_answers});
  labs.push_back(
      {.name = "layouts", .title = "Which task runs on which node: srun's options", .check = layouts::check});
  labs.push_back({.name = "scaling",
                  .title = "Training on more ranks: the curve, and a model of where the time goes",
                  .check = check_answers});
  return labs;
}

}  // namespace tutti::labs
