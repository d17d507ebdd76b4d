// The collective algorithms, each a pure function from (rank, world size, count, ...) to that rank's Schedule, and the
// rule that picks one.
//
// A schedule has no messages of count 0 (but a barrier's and all_to_all_v's), none to the rank itself, and no step that
// moves more than segment_count elements (but all_to_all_v's, whose messages tell by their length what was sent). A
// collective of count 0 is therefore an empty schedule: no rank hears of another. A caller that wants the ranks to
// meet, or to compare what they called, runs a barrier.
//
// Thread-safety: pure functions. Nothing here throws but select(), as stated there.
#pragma once

#include <tutti/comm/schedule/schedule.h>

#include <cstddef>
#include <string_view>
#include <vector>

namespace tutti::comm {
struct Tuning;  // tuning.h
}

namespace tutti::comm::algorithms {

using Algorithm = Schedule (*)(const Problem&);

Schedule ring_all_reduce(const Problem& problem);                // ring.cc
Schedule ring_all_gather(const Problem& problem);                // also the v-form
Schedule ring_reduce_scatter(const Problem& problem);            // also the v-form
Schedule recursive_doubling_all_reduce(const Problem& problem);  // recursive_doubling.cc, any world size
Schedule bruck_all_gather(const Problem& problem);               // bruck.cc, any world size
Schedule bruck_reduce_scatter(const Problem& problem);
Schedule binomial_broadcast(const Problem& problem);  // binomial.cc, any root
Schedule binomial_reduce(const Problem& problem);
Schedule binomial_all_reduce(const Problem& problem);
Schedule binomial_gather(const Problem& problem);
Schedule binomial_scatter(const Problem& problem);
Schedule pairwise_all_to_all(const Problem& problem);  // pairwise.cc, also the v-form
Schedule bruck_all_to_all(const Problem& problem);
Schedule rabenseifner_all_reduce(const Problem& problem);  // rabenseifner.cc, any world size
Schedule chain_broadcast(const Problem& problem);          // chain.cc, any root, as those below
Schedule chain_reduce(const Problem& problem);
Schedule fixed_all_reduce(const Problem& problem);  // fixed_order.cc
Schedule fixed_reduce(const Problem& problem);
Schedule direct_gather(const Problem& problem);  // direct.cc, all also the v-forms
Schedule direct_scatter(const Problem& problem);
Schedule direct_reduce_scatter(const Problem& problem);
Schedule star_all_reduce(const Problem& problem);  // star.cc
Schedule star_all_gather(const Problem& problem);
Schedule star_reduce_scatter(const Problem& problem);
Schedule star_barrier(const Problem& problem);
Schedule double_tree_broadcast(const Problem& problem);  // double_tree.cc
Schedule double_tree_reduce(const Problem& problem);
Schedule double_tree_all_reduce(const Problem& problem);
Schedule dissemination_barrier(const Problem& problem);   // dissemination.cc
Schedule hierarchical_broadcast(const Problem& problem);  // hierarchical.cc, any hosts
Schedule hierarchical_reduce(const Problem& problem);
Schedule hierarchical_all_reduce(const Problem& problem);
Schedule hierarchical_split_all_reduce(const Problem& problem);

/// The name of the algorithm that promises to be fastest for `problem` (element size `element_bytes`): by the times in
/// `tuning` where it has some for this operation, else by the estimates of algorithms/cost_model.h with tuning's
/// network model, or the default one. Throws InvalidArgument for OpKind::Send and OpKind::Recv, which have no schedule.
std::string_view choose(const Problem& problem, std::size_t element_bytes, const Tuning* tuning = nullptr);

/// Builds the schedule of `problem` by the algorithm `name`: "" (by choose()) or one of "ring", "recursive_doubling",
/// "rabenseifner", "bruck", "pairwise", "binomial", "chain", "double_tree",
/// "direct", "star", "linear", "dissemination", "hierarchical", "hierarchical_split". A name that exists but does not
/// implement this operation falls back to choose(), and so does one that does not keep the order that the problem asks
/// for; a name that does not exist throws InvalidArgument listing the known ones, and so do OpKind::Send and
/// OpKind::Recv. For left_fold an operation's length alone decides, and names are passed over, except between two
/// ranks, where it means in_order. Messages are cut at segment_count().
Schedule select(const Problem& problem, std::size_t element_bytes, std::string_view name = "",
                const Tuning* tuning = nullptr);

/// The largest number of elements that `algorithm` moves at once, 0 = no limit: what the problem says, or four times as
/// many where all ranks send and receive until the end, and add meanwhile: there cutting fills no gaps.
std::size_t segment_count(const Problem& problem, std::string_view algorithm);

/// The names that implement `op`, in the order of the table in table.cc; empty for OpKind::Send and OpKind::Recv.
std::vector<std::string_view> names_for(OpKind op);

/// Whether algorithm `name` is the same on all ranks but for where they stand: rank r's schedule is rank 0's with r
/// added (mod world_size) to every peer, and with other offsets; kinds, counts and `after` are equal. So one rank's
/// schedule tells everything about a large world. False for names and operations that do not go together.
bool rotates(const Problem& problem, std::string_view name);

}  // namespace tutti::comm::algorithms
