/* Messages between two ranks, and the store that a group has met in. Included by tutti.h. */
#pragma once

#include <tutti/comm/c/tutti_base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* --- Messages: those between two ranks with equal tags arrive in the order they were sent. ----------------------- */

/** Returns when `data` may be used again: at once for up to 64 KiB, as long as there is room; else when the receiver
 * asks for it. */
TUTTI_API tutti_result tutti_send(tutti_group* group, const void* data, size_t count, tutti_dtype dtype,
                                  int destination, int tag);
/** Starts tutti_send(). */
TUTTI_API tutti_result tutti_isend(tutti_group* group, const void* data, size_t count, tutti_dtype dtype,
                                   int destination, int tag, tutti_work** work);

/** Waits for a message with `tag` from rank `source`, or TUTTI_ANY_SOURCE; its type and exact count must be these.
 * *from (may be NULL) becomes the sender's rank. */
TUTTI_API tutti_result tutti_recv(tutti_group* group, void* data, size_t count, tutti_dtype dtype, int source, int tag,
                                  int* from);
/** Starts tutti_recv(); tutti_work_source() gives the sender's rank. */
TUTTI_API tutti_result tutti_irecv(tutti_group* group, void* data, size_t count, tutti_dtype dtype, int source, int tag,
                                   tutti_work** work);

/** Both at once: no order among the ranks makes them wait for each other. The buffers must not overlap. *from (may be
 * NULL) becomes the rank that the message came from. */
TUTTI_API tutti_result tutti_sendrecv(tutti_group* group, const void* outgoing, size_t outgoing_count, int destination,
                                      int send_tag, void* incoming, size_t incoming_count, int source, int recv_tag,
                                      tutti_dtype dtype, int* from);

/* --- The store: keys and values that all ranks of the group see; a sub-group has keys of its own. ------------------
 * Each waits up to `timeout_ms` (1 or more), for the server and, where it says so, for a key; TUTTI_TIMEOUT names the
 * key. Neither a failed nor a shut-down group keeps them from working. */

/** `value` is any bytes. */
TUTTI_API tutti_result tutti_store_set(tutti_group* group, const char* key, const void* value, size_t nbytes,
                                       int64_t timeout_ms);

/** Waits until the key exists. *nbytes becomes the length of its value, which is copied to `value` if it fits into
 * `capacity` bytes; if not, nothing is, and the result is TUTTI_INVALID_ARGUMENT. `value` NULL with `capacity` 0 asks
 * for the length only. */
TUTTI_API tutti_result tutti_store_get(tutti_group* group, const char* key, void* value, size_t capacity,
                                       size_t* nbytes, int64_t timeout_ms);

/** Waits until all `count` keys exist. */
TUTTI_API tutti_result tutti_store_wait(tutti_group* group, const char* const* keys, size_t count, int64_t timeout_ms);

/** Adds `delta` to the decimal number under `key` (0 if there is none); *sum (may be NULL) becomes the new value. */
TUTTI_API tutti_result tutti_store_add(tutti_group* group, const char* key, int64_t delta, int64_t* sum,
                                       int64_t timeout_ms);

/** *exists becomes 1 if the key exists now, else 0. */
TUTTI_API tutti_result tutti_store_check(tutti_group* group, const char* key, int* exists, int64_t timeout_ms);

/** *existed (may be NULL) becomes 1 if there was such a key, else 0. */
TUTTI_API tutti_result tutti_store_delete(tutti_group* group, const char* key, int* existed, int64_t timeout_ms);

#ifdef __cplusplus
}
#endif
