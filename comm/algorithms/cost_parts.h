// Cost of what several operations are made of, on the network and for the ranks that `Terms` names.
#pragma once

#include <tutti/comm/algorithms/cost_terms.h>

namespace tutti::comm {

/// Of all_reduce. In a ring, segments are added while others come; but where messages were measured processors are the
/// narrow place: nothing comes meanwhile, and what was measured was cut.
double ring_all_reduce(const Terms& t);
double recursive_doubling(const Terms& t);
double rabenseifner(const Terms& t);

double chain_broadcast(const Terms& t);
double chain_reduce(const Terms& t);
double binomial_broadcast(const Terms& t);
double binomial_reduce(const Terms& t);

/// p - 1 messages of one rank to all others, or of these to it. Where messages were measured, processors are the narrow
/// place: each after the first one takes what a rank's share is of a round in which all send. That rank's processor has
/// the bytes of all of them in its caches, so they take no less than those of one message as long.
double by_one_rank(const Terms& t, double bytes);

/// all_reduce of two ranks, one of which adds what the other one has: between the first piece and the last, those that
/// come back meet those that are on their way there.
double there_and_back(const Terms& t);

/// Of broadcast, reduce and all_reduce.
double double_tree(OpKind op, const Terms& t);

struct HostTerms {
  Terms within;
  Terms among;
  double smallest;  // ranks of a host
};

HostTerms host_terms(const Problem& problem, const Terms& flat);
double hierarchical_split(const HostTerms& hosts);

}  // namespace tutti::comm
