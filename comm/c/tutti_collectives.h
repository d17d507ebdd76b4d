/* The collectives of the C API. Included by tutti.h, which says how the whole is used.
 *
 * All ranks of the group call the same ones in the same order, with the same counts, types, operators and roots; a rank
 * that differs gets TUTTI_MISMATCH, with both sides' values: in this operation where one waits for the other; else (two
 * roots, or one that only sends) both calls may return, and a later one reports it: the next in which all wait for each
 * other in shared memory, over TCP the next in which the receiver reads from that rank. `count` is in elements, of one
 * rank's block where there are several. Pointers may be NULL where there is nothing to read or write. Inputs are never
 * written.
 *
 * Each has a twin, _async, that starts it and gives a work handle. Its buffers belong to the operation until that is
 * complete; arrays of counts are copied.
 */
#pragma once

#include <tutti/comm/c/tutti_base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Root's `data` overwrites that of all others. */
TUTTI_API tutti_result tutti_broadcast(tutti_group* group, void* data, size_t count, tutti_dtype dtype, int root);
/** Starts tutti_broadcast(). */
TUTTI_API tutti_result tutti_broadcast_async(tutti_group* group, void* data, size_t count, tutti_dtype dtype, int root,
                                             tutti_work** work);

/** Root's `output` becomes the reduction of all inputs, and may be its input. Elsewhere `output` is not used. */
TUTTI_API tutti_result tutti_reduce(tutti_group* group, const void* input, void* output, size_t count,
                                    tutti_dtype dtype, tutti_op op, int root);
/** Starts tutti_reduce(). */
TUTTI_API tutti_result tutti_reduce_async(tutti_group* group, const void* input, void* output, size_t count,
                                          tutti_dtype dtype, tutti_op op, int root, tutti_work** work);

/** In place. Afterwards all ranks hold the same bits. */
TUTTI_API tutti_result tutti_all_reduce(tutti_group* group, void* data, size_t count, tutti_dtype dtype, tutti_op op);
/** Starts tutti_all_reduce(). */
TUTTI_API tutti_result tutti_all_reduce_async(tutti_group* group, void* data, size_t count, tutti_dtype dtype,
                                              tutti_op op, tutti_work** work);

/** `rounded` (float32) becomes the sum of all ranks' `sums` (float64), rounded once, at the end; zeros have no sign.
 * `sums` is unspecified afterwards. The two must not overlap. */
TUTTI_API tutti_result tutti_all_reduce_rounded(tutti_group* group, double* sums, float* rounded, size_t count);
/** Starts tutti_all_reduce_rounded(). */
TUTTI_API tutti_result tutti_all_reduce_rounded_async(tutti_group* group, double* sums, float* rounded, size_t count,
                                                      tutti_work** work);

/** Root's `output` receives world-size blocks of `count` elements, in rank order. Elsewhere it is not used. */
TUTTI_API tutti_result tutti_gather(tutti_group* group, const void* input, void* output, size_t count,
                                    tutti_dtype dtype, int root);
/** Starts tutti_gather(). */
TUTTI_API tutti_result tutti_gather_async(tutti_group* group, const void* input, void* output, size_t count,
                                          tutti_dtype dtype, int root, tutti_work** work);

/** Every rank's `output` receives world-size blocks of `count` elements, in rank order. `input` may be this rank's
 * block of `output`. */
TUTTI_API tutti_result tutti_all_gather(tutti_group* group, const void* input, void* output, size_t count,
                                        tutti_dtype dtype);
/** Starts tutti_all_gather(). */
TUTTI_API tutti_result tutti_all_gather_async(tutti_group* group, const void* input, void* output, size_t count,
                                              tutti_dtype dtype, tutti_work** work);

/** Root's `input` holds world-size blocks of `count` elements; block r goes to rank r's `output`. Elsewhere `input` is
 * not used. */
TUTTI_API tutti_result tutti_scatter(tutti_group* group, const void* input, void* output, size_t count,
                                     tutti_dtype dtype, int root);
/** Starts tutti_scatter(). */
TUTTI_API tutti_result tutti_scatter_async(tutti_group* group, const void* input, void* output, size_t count,
                                           tutti_dtype dtype, int root, tutti_work** work);

/** `input` holds world-size blocks of `count` elements; rank r's `output` becomes the reduction of all ranks' block r.
 * The buffers must not overlap, but `output` may be this rank's block of `input`. */
TUTTI_API tutti_result tutti_reduce_scatter(tutti_group* group, const void* input, void* output, size_t count,
                                            tutti_dtype dtype, tutti_op op);
/** Starts tutti_reduce_scatter(). */
TUTTI_API tutti_result tutti_reduce_scatter_async(tutti_group* group, const void* input, void* output, size_t count,
                                                  tutti_dtype dtype, tutti_op op, tutti_work** work);

/** Both hold world-size blocks of `count` elements; block j of rank i's `input` becomes block i of rank j's `output`.
 * The buffers must not overlap. */
TUTTI_API tutti_result tutti_all_to_all(tutti_group* group, const void* input, void* output, size_t count,
                                        tutti_dtype dtype);
/** Starts tutti_all_to_all(). */
TUTTI_API tutti_result tutti_all_to_all_async(tutti_group* group, const void* input, void* output, size_t count,
                                              tutti_dtype dtype, tutti_work** work);

/* The v-forms: rank r has counts[r] elements, 0 or more. `counts` has an entry for each rank and is equal on all of
 * them. `whole` holds the blocks of all ranks one behind the other, in rank order. The buffers must not overlap. */

/** Root's `whole` receives every rank's `block`. Elsewhere `whole` is not used. */
TUTTI_API tutti_result tutti_gather_v(tutti_group* group, const void* block, void* whole, const size_t* counts,
                                      tutti_dtype dtype, int root);
/** Starts tutti_gather_v(). */
TUTTI_API tutti_result tutti_gather_v_async(tutti_group* group, const void* block, void* whole, const size_t* counts,
                                            tutti_dtype dtype, int root, tutti_work** work);

/** Every rank's `block` comes from root's `whole`. Elsewhere `whole` is not used. */
TUTTI_API tutti_result tutti_scatter_v(tutti_group* group, const void* whole, void* block, const size_t* counts,
                                       tutti_dtype dtype, int root);
/** Starts tutti_scatter_v(). */
TUTTI_API tutti_result tutti_scatter_v_async(tutti_group* group, const void* whole, void* block, const size_t* counts,
                                             tutti_dtype dtype, int root, tutti_work** work);

/** Every rank's `whole` receives the `block` of each rank. */
TUTTI_API tutti_result tutti_all_gather_v(tutti_group* group, const void* block, void* whole, const size_t* counts,
                                          tutti_dtype dtype);
/** Starts tutti_all_gather_v(). */
TUTTI_API tutti_result tutti_all_gather_v_async(tutti_group* group, const void* block, void* whole,
                                                const size_t* counts, tutti_dtype dtype, tutti_work** work);

/** Rank r's `block` becomes the reduction of all ranks' block r of `whole`. */
TUTTI_API tutti_result tutti_reduce_scatter_v(tutti_group* group, const void* whole, void* block, const size_t* counts,
                                              tutti_dtype dtype, tutti_op op);
/** Starts tutti_reduce_scatter_v(). */
TUTTI_API tutti_result tutti_reduce_scatter_v_async(tutti_group* group, const void* whole, void* block,
                                                    const size_t* counts, tutti_dtype dtype, tutti_op op,
                                                    tutti_work** work);

/** `input` holds send_counts[j] elements for rank j, in rank order; `output` receives recv_counts[i] elements from rank
 * i. These counts are this rank's own. */
TUTTI_API tutti_result tutti_all_to_all_v(tutti_group* group, const void* input, const size_t* send_counts,
                                          void* output, const size_t* recv_counts, tutti_dtype dtype);
/** Starts tutti_all_to_all_v(). */
TUTTI_API tutti_result tutti_all_to_all_v_async(tutti_group* group, const void* input, const size_t* send_counts,
                                                void* output, const size_t* recv_counts, tutti_dtype dtype,
                                                tutti_work** work);

/** Returns when all ranks have called it. */
TUTTI_API tutti_result tutti_barrier(tutti_group* group);
/** Starts tutti_barrier(). */
TUTTI_API tutti_result tutti_barrier_async(tutti_group* group, tutti_work** work);

#ifdef __cplusplus
}
#endif
