/* The C API of Tutti's communication layer, for C and for every language that can call C.
 *
 *     tutti_group* group = NULL;
 *     if (tutti_connect(NULL, NULL, &group) != TUTTI_OK) { fprintf(stderr, "%s\n", tutti_last_error()); return 1; }
 *     tutti_all_reduce(group, values, count, TUTTI_FLOAT32, TUTTI_SUM);
 *     tutti_shutdown(group);
 *     tutti_free(group);
 *
 * Link libtutti_c (CMake: tutti::c) and start the program by `tutti run -n 4 -- PROGRAM`, srun or mpirun; without a
 * launcher it is a world of one. What operations mean, block for and promise is what comm/process_group.h says of the
 * C++ ones with the same names.
 *
 * Results: every function returns a code and, unless that is TUTTI_OK, leaves a text for
 * tutti_last_error(); outputs are then as they were, but for buffers of collectives. No exception and no abort leaves
 * the library: a NULL that must not be, a handle that was freed or is of another kind, a number that is no type or
 * operator and a count that overflows are TUTTI_INVALID_ARGUMENT, by name, before anything is sent.
 *
 * Handles: not pointers to be looked into, and never used twice: one that was freed is known to be gone. Each is freed
 * by its own function; freeing NULL does nothing. A handle may be freed in any order and by any thread; a call that
 * another thread makes on it meanwhile ends in good order.
 *
 * Threads: as in C++: one thread at a time issues operations on a group (a second one gets TUTTI_INVALID_ARGUMENT),
 * work handles may be used anywhere, different groups by different threads at once.
 *
 * Structs begin with struct_size, the size of the struct that the caller was compiled with: call the struct's _init
 * function first, then set what is to differ. Fields are only ever added at the end, so that a program and a library
 * of different age understand each other; a field that is set and that the library does not know is refused.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/** Grows when something is added to the C API; what is there keeps its meaning, its numbers and its layout. */
#define TUTTI_C_ABI_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

/** What functions return: TUTTI_OK, or which side has to act. Other codes may come later, all of them positive. */
typedef int tutti_result;

/** Values of tutti_result. The numbers are part of the ABI. */
enum tutti_results {
  TUTTI_OK = 0,               /**< done */
  TUTTI_INVALID_ARGUMENT = 1, /**< the caller's: a wrong argument, handle or environment; nothing was sent */
  TUTTI_TIMEOUT = 2,          /**< a deadline passed; the text names the missing ranks */
  TUTTI_PEER_LOST = 3,        /**< another process died, or its connection broke */
  TUTTI_PROTOCOL = 4,         /**< bytes on the wire that no Tutti peer of this version sends */
  TUTTI_MISMATCH = 5,         /**< two ranks called different collectives, sizes, types or roots */
  TUTTI_UNAUTHORIZED = 6,     /**< wrong job secret, job id or world size */
  TUTTI_ABORTED = 7,          /**< the group had failed before, or was shut down; the text repeats the first cause */
  TUTTI_SYSTEM = 8,           /**< the operating system refused, or memory ran out */
  TUTTI_OPERATOR = 9,         /**< the caller's: an operator of tutti_op_create() reported an error */
  TUTTI_INTERNAL = 10         /**< an error that comm does not raise; please report it with its text */
};

/** Type of an element. */
typedef int tutti_dtype;

/** Values of tutti_dtype. The numbers are part of the ABI. */
enum tutti_dtypes {
  TUTTI_FLOAT32 = 0,
  TUTTI_FLOAT64 = 1,
  TUTTI_INT32 = 2,
  TUTTI_INT64 = 3,
  TUTTI_UINT8 = 4,
  TUTTI_FLOAT16 = 5, /**< IEEE 754 binary16; added in float, rounded at each step */
  TUTTI_BFLOAT16 = 6,
  TUTTI_INT8 = 7,
  TUTTI_UINT16 = 8,
  TUTTI_UINT64 = 9,
  TUTTI_BOOL = 10 /**< one byte, 0 or 1 */
};

/** How a reduction combines elements: a value of tutti_ops, or an operator of tutti_op_create(). */
typedef int tutti_op;

/** Values of tutti_op. The numbers are part of the ABI; those from 1000 on belong to operators of the caller's. */
enum tutti_ops {
  TUTTI_SUM = 0,
  TUTTI_AVG = 1, /**< floating point only */
  TUTTI_PROD = 2,
  TUTTI_MIN = 3,
  TUTTI_MAX = 4,
  TUTTI_BAND = 5, /**< this and the next two: integers and bool only */
  TUTTI_BOR = 6,
  TUTTI_BXOR = 7
};

/** A receive from the rank that sends first. */
#define TUTTI_ANY_SOURCE (-1)

/** A rank's place in its job: tutti_world_detect(). */
typedef struct tutti_world tutti_world;
/** Ranks that issue collectives together: tutti_connect(), tutti_split(), tutti_subgroup(). */
typedef struct tutti_group tutti_group;
/** One operation that was started and may still run. */
typedef struct tutti_work tutti_work;
/** Memory that the other ranks of this host reach in place: tutti_allocate(). */
typedef struct tutti_buffer tutti_buffer;

/** Of the library that is loaded: compare it with TUTTI_C_ABI_VERSION, of the header. At least that is good. */
int tutti_abi_version(void);

/** Of the library that is loaded, "0.1.0". */
const char* tutti_version(void);

/** "TUTTI_TIMEOUT"; "unknown result" for a number that is none. */
const char* tutti_result_name(tutti_result result);

/** The text of this thread's latest call that did not return TUTTI_OK; "" before the first. Never NULL. Valid until
 * this thread's next call that fails. */
const char* tutti_last_error(void);

/** Bytes of one element. */
tutti_result tutti_size_of(tutti_dtype dtype, size_t* nbytes);

/** Combines `count` elements: target[i] = target[i] (+) incoming[i]. The memories do not overlap. Called on whichever
 * thread runs the collective, with pieces of any length; it must use no function of this library on the group. Returns
 * 0, or anything else to fail the operation, and with it the group, on all ranks. Which ranks call it is up to
 * the algorithm: one may add for all. No C++ exception and no longjmp may leave it. */
typedef int (*tutti_combine)(void* target, const void* incoming, size_t count, tutti_dtype dtype, void* context);

/** Makes an operator of the caller's, associative up to rounding. `name` is equal on all ranks for the same operator,
 * different for different ones: ranks compare it. `commutative` 0: target always holds the contributions of ranks below
 * incoming's. `context` is handed to `combine` and must live until the last operation with it is complete. */
tutti_result tutti_op_create(const char* name, tutti_combine combine, void* context, int commutative, tutti_op* op);

/** Operations in flight keep what they need. The number is not used again. */
tutti_result tutti_op_free(tutti_op op);

#define TUTTI_INVITATION_SIZE 1536

/** What the caller knows of its place; each value that is set wins over the environment, and one that contradicts it is
 * an error. The job secret comes from TUTTI_JOB_SECRET, or the user's own file. */
typedef struct tutti_world_options {
  size_t struct_size;
  int rank;                /**< -1: not set */
  int world_size;          /**< -1: not set */
  const char* master_addr; /**< this and the next three NULL, or -1: not set */
  int master_port;
  const char* store;    /**< "file:///PATH", or a text of tutti_invite(): where the ranks meet instead */
  const char* launcher; /**< the launcher that sets the variables: "auto", "none", "env", "slurm", ... */
} tutti_world_options;

/** What was found. The texts live as long as the handle they were asked of. */
typedef struct tutti_world_info {
  size_t struct_size;
  int rank;
  int world_size;
  int local_rank;
  int local_world_size;
  int cpus_per_rank; /**< as asked of the scheduler; 0: not known */
  const char* master_addr;
  int master_port;
  const char* job_id;
  const char* detected_from; /**< "RANK, WORLD_SIZE, ... in the environment" */
} tutti_world_info;

/** ProcessGroupOptions of comm/process_group.h. NULL stands for the default of each text. */
typedef struct tutti_group_options {
  size_t struct_size;
  const char* name;           /**< ranks of one group give the same; NULL: "world" */
  int64_t timeout_ms;         /**< deadline of each operation, and of forming the group; 300000 */
  int64_t report_after_ms;    /**< a longer wait logs one line; 5000 */
  const char* algorithm;      /**< a name of comm/algorithms.md; NULL: TUTTI_ALGO, else chosen */
  const char* transport;      /**< "auto", "tcp", "shm", "ucx"; NULL: TUTTI_TRANSPORT, else "auto" */
  const char* bind_address;   /**< NULL: the address of the route that reached the store */
  const char* interface_name; /**< "eth0", "ib*", "10.1.0.0/16"; NULL: TUTTI_IFACE, else none */
  size_t segment_bytes;       /**< unit of overlap inside one message, 64 or more; 262144 */
  int reproducible;           /**< 1: bits that depend on the ranks' inputs only; 0 */
  int encrypt;                /**< 1: TLS 1.3 on all TCP connections between ranks; 0, or TUTTI_ENCRYPT */
  const char* trace_file;     /**< NULL: TUTTI_TRACE, else none */
} tutti_group_options;

/** What a group is. The texts live as long as the handle they were asked of. */
typedef struct tutti_group_info {
  size_t struct_size;
  int rank;
  int world_size;
  int64_t timeout_ms;
  const char* name;      /**< unique in the job, equal on all ranks of the group */
  const char* transport; /**< "shm", "tcp", "shm+tcp", "tcp+tls", "tcp+ucx", "shm+tcp+tls", "inproc" */
} tutti_group_info;

/* --- The world ------------------------------------------------------------------------------------------------- */

/** Fills in the defaults. `struct_size` is sizeof(tutti_world_options). */
tutti_result tutti_world_options_init(tutti_world_options* options, size_t struct_size);

/** Finds this process's place: options, then RANK, WORLD_SIZE, ... (torchrun's names), then the scheduler's variables,
 * then a world of one. `options` may be NULL. Opens no connection. */
tutti_result tutti_world_detect(const tutti_world_options* options, tutti_world** world);

/** For programs that can bring a text from one process to the others by themselves: starts a store server on a free
 * port, for one group of `world_size` ranks, and writes the text that says where it is, with a 0 behind it. Each rank
 * gives it as tutti_world_options.store, with its rank and the world size; of the environment only TUTTI_JOB_SECRET is
 * read then. The process that called this is one of the ranks. `one_host` 1: all ranks run on this host. Any process
 * that has the text may join, unless TUTTI_JOB_SECRET is set, which all ranks must have then. `capacity` is
 * TUTTI_INVITATION_SIZE or more. */
tutti_result tutti_invite(int world_size, int one_host, char* text, size_t capacity);

/** `info->struct_size` is set by the caller. */
tutti_result tutti_world_describe(tutti_world* world, tutti_world_info* info);

/** Groups that were formed from it stay. */
tutti_result tutti_world_free(tutti_world* world);

/* --- Groups ---------------------------------------------------------------------------------------------------- */

/** Fills in the defaults. `struct_size` is sizeof(tutti_group_options). */
tutti_result tutti_group_options_init(tutti_group_options* options, size_t struct_size);

/** Forms the group of all ranks, waiting for them up to timeout_ms. `world` NULL: the one that tutti_world_detect()
 * finds; `options` NULL: the defaults. */
tutti_result tutti_connect(tutti_world* world, const tutti_group_options* options, tutti_group** group);

/** This rank's number in the group, 0 .. world size - 1. */
tutti_result tutti_rank(tutti_group* group, int* rank);

/** How many ranks the group has. */
tutti_result tutti_world_size(tutti_group* group, int* world_size);

/** `info->struct_size` is set by the caller. */
tutti_result tutti_group_describe(tutti_group* group, tutti_group_info* info);

/** The rank in the world of each rank of this group: `capacity` is its world size or more. */
tutti_result tutti_world_ranks(tutti_group* group, int* ranks, size_t capacity);

/** Collective. Ranks that give the same `color` become a group, in the order of their keys, and of their ranks here
 * where keys are equal. A rank with a negative color gets none: *sub is NULL. */
tutti_result tutti_split(tutti_group* group, int color, int key, tutti_group** sub);

/** The group of these `count` ranks (of `group`); only they call it, with the same list. */
tutti_result tutti_subgroup(tutti_group* group, const int* ranks, size_t count, tutti_group** sub);

/** Collective: waits until all ranks have finished their operations, then closes. The handle stays, to be freed. */
tutti_result tutti_shutdown(tutti_group* group);

/** Fails the group on all ranks with `reason`; their operations end within a second. */
tutti_result tutti_abort(tutti_group* group, const char* reason);

/** Without tutti_shutdown() before, a goodbye of at most 5 s. Unfinished work fails. After TUTTI_OK no operation uses
 * its buffers any more, unless another thread is still in a call on this handle. */
tutti_result tutti_free(tutti_group* group);

/** The first failure of the group that a call on this handle, or on a work handle of it, has returned: the cause that
 * all later calls repeat; "" while there is none. TUTTI_INVALID_ARGUMENT is no failure of a group. The text lives as
 * long as the handle. */
tutti_result tutti_group_error(tutti_group* group, const char** text);

/** The latest operations of this rank, one a line, as far as `capacity` bytes go, the 0 at the end included; *length
 * (may be NULL) is that of the whole text. */
tutti_result tutti_recent_operations(tutti_group* group, char* text, size_t capacity, size_t* length);

/* --- Collectives ------------------------------------------------------------------------------------------------
 * All ranks of the group call the same ones in the same order, with the same counts, types, operators and roots; a rank
 * that differs gets TUTTI_MISMATCH, with both sides' values: in this operation where one waits for the other; else (two
 * roots, or one that only sends) both calls may return, and a later one reports it: the next in which all wait for each
 * other in shared memory, over TCP the next in which the receiver reads from that rank. `count` is in elements, of one
 * rank's block where there are several. Pointers may be NULL where there is nothing to read or write. Inputs are never
 * written.
 *
 * Each has a twin, _async, that starts it and gives a work handle. Its buffers belong to the operation until that is
 * complete; arrays of counts are copied. */

/** Root's `data` overwrites that of all others. */
tutti_result tutti_broadcast(tutti_group* group, void* data, size_t count, tutti_dtype dtype, int root);
tutti_result tutti_broadcast_async(tutti_group* group, void* data, size_t count, tutti_dtype dtype, int root,
                                   tutti_work** work);

/** Root's `output` becomes the reduction of all inputs, and may be its input. Elsewhere `output` is not used. */
tutti_result tutti_reduce(tutti_group* group, const void* input, void* output, size_t count, tutti_dtype dtype,
                          tutti_op op, int root);
tutti_result tutti_reduce_async(tutti_group* group, const void* input, void* output, size_t count, tutti_dtype dtype,
                                tutti_op op, int root, tutti_work** work);

/** In place. Afterwards all ranks hold the same bits. */
tutti_result tutti_all_reduce(tutti_group* group, void* data, size_t count, tutti_dtype dtype, tutti_op op);
tutti_result tutti_all_reduce_async(tutti_group* group, void* data, size_t count, tutti_dtype dtype, tutti_op op,
                                    tutti_work** work);

/** `rounded` (float32) becomes the sum of all ranks' `sums` (float64), rounded once, at the end; zeros have no sign.
 * `sums` is unspecified afterwards. The two must not overlap. */
tutti_result tutti_all_reduce_rounded(tutti_group* group, double* sums, float* rounded, size_t count);
tutti_result tutti_all_reduce_rounded_async(tutti_group* group, double* sums, float* rounded, size_t count,
                                            tutti_work** work);

/** Root's `output` receives world-size blocks of `count` elements, in rank order. Elsewhere it is not used. */
tutti_result tutti_gather(tutti_group* group, const void* input, void* output, size_t count, tutti_dtype dtype,
                          int root);
tutti_result tutti_gather_async(tutti_group* group, const void* input, void* output, size_t count, tutti_dtype dtype,
                                int root, tutti_work** work);

/** Every rank's `output` receives world-size blocks of `count` elements, in rank order. `input` may be this rank's
 * block of `output`. */
tutti_result tutti_all_gather(tutti_group* group, const void* input, void* output, size_t count, tutti_dtype dtype);
tutti_result tutti_all_gather_async(tutti_group* group, const void* input, void* output, size_t count,
                                    tutti_dtype dtype, tutti_work** work);

/** Root's `input` holds world-size blocks of `count` elements; block r goes to rank r's `output`. Elsewhere `input` is
 * not used. */
tutti_result tutti_scatter(tutti_group* group, const void* input, void* output, size_t count, tutti_dtype dtype,
                           int root);
tutti_result tutti_scatter_async(tutti_group* group, const void* input, void* output, size_t count, tutti_dtype dtype,
                                 int root, tutti_work** work);

/** `input` holds world-size blocks of `count` elements; rank r's `output` becomes the reduction of all ranks' block r.
 * The buffers must not overlap, but `output` may be this rank's block of `input`. */
tutti_result tutti_reduce_scatter(tutti_group* group, const void* input, void* output, size_t count, tutti_dtype dtype,
                                  tutti_op op);
tutti_result tutti_reduce_scatter_async(tutti_group* group, const void* input, void* output, size_t count,
                                        tutti_dtype dtype, tutti_op op, tutti_work** work);

/** Both hold world-size blocks of `count` elements; block j of rank i's `input` becomes block i of rank j's `output`.
 * The buffers must not overlap. */
tutti_result tutti_all_to_all(tutti_group* group, const void* input, void* output, size_t count, tutti_dtype dtype);
tutti_result tutti_all_to_all_async(tutti_group* group, const void* input, void* output, size_t count,
                                    tutti_dtype dtype, tutti_work** work);

/* The v-forms: rank r has counts[r] elements, 0 or more. `counts` has an entry for each rank and is equal on all of
 * them. `whole` holds the blocks of all ranks one behind the other, in rank order. The buffers must not overlap. */

/** Root's `whole` receives every rank's `block`. Elsewhere `whole` is not used. */
tutti_result tutti_gather_v(tutti_group* group, const void* block, void* whole, const size_t* counts, tutti_dtype dtype,
                            int root);
tutti_result tutti_gather_v_async(tutti_group* group, const void* block, void* whole, const size_t* counts,
                                  tutti_dtype dtype, int root, tutti_work** work);

/** Every rank's `block` comes from root's `whole`. Elsewhere `whole` is not used. */
tutti_result tutti_scatter_v(tutti_group* group, const void* whole, void* block, const size_t* counts,
                             tutti_dtype dtype, int root);
tutti_result tutti_scatter_v_async(tutti_group* group, const void* whole, void* block, const size_t* counts,
                                   tutti_dtype dtype, int root, tutti_work** work);

/** Every rank's `whole` receives the `block` of each rank. */
tutti_result tutti_all_gather_v(tutti_group* group, const void* block, void* whole, const size_t* counts,
                                tutti_dtype dtype);
tutti_result tutti_all_gather_v_async(tutti_group* group, const void* block, void* whole, const size_t* counts,
                                      tutti_dtype dtype, tutti_work** work);

/** Rank r's `block` becomes the reduction of all ranks' block r of `whole`. */
tutti_result tutti_reduce_scatter_v(tutti_group* group, const void* whole, void* block, const size_t* counts,
                                    tutti_dtype dtype, tutti_op op);
tutti_result tutti_reduce_scatter_v_async(tutti_group* group, const void* whole, void* block, const size_t* counts,
                                          tutti_dtype dtype, tutti_op op, tutti_work** work);

/** `input` holds send_counts[j] elements for rank j, in rank order; `output` receives recv_counts[i] elements from rank
 * i. These counts are this rank's own. */
tutti_result tutti_all_to_all_v(tutti_group* group, const void* input, const size_t* send_counts, void* output,
                                const size_t* recv_counts, tutti_dtype dtype);
tutti_result tutti_all_to_all_v_async(tutti_group* group, const void* input, const size_t* send_counts, void* output,
                                      const size_t* recv_counts, tutti_dtype dtype, tutti_work** work);

/** Returns when all ranks have called it. */
tutti_result tutti_barrier(tutti_group* group);
tutti_result tutti_barrier_async(tutti_group* group, tutti_work** work);

/* --- Messages: those between two ranks with equal tags arrive in the order they were sent. ----------------------- */

/** Returns when `data` may be used again: at once for up to 64 KiB, as long as there is room; else when the receiver
 * asks for it. */
tutti_result tutti_send(tutti_group* group, const void* data, size_t count, tutti_dtype dtype, int destination,
                        int tag);
/** Starts tutti_send(). */
tutti_result tutti_isend(tutti_group* group, const void* data, size_t count, tutti_dtype dtype, int destination,
                         int tag, tutti_work** work);

/** Waits for a message with `tag` from rank `source`, or TUTTI_ANY_SOURCE; its type and exact count must be these.
 * *from (may be NULL) becomes the sender's rank. */
tutti_result tutti_recv(tutti_group* group, void* data, size_t count, tutti_dtype dtype, int source, int tag,
                        int* from);
/** Starts tutti_recv(); tutti_work_source() gives the sender's rank. */
tutti_result tutti_irecv(tutti_group* group, void* data, size_t count, tutti_dtype dtype, int source, int tag,
                         tutti_work** work);

/** Both at once: no order among the ranks makes them wait for each other. The buffers must not overlap. *from (may be
 * NULL) becomes the rank that the message came from. */
tutti_result tutti_sendrecv(tutti_group* group, const void* outgoing, size_t outgoing_count, int destination,
                            int send_tag, void* incoming, size_t incoming_count, int source, int recv_tag,
                            tutti_dtype dtype, int* from);

/* --- The store: keys and values that all ranks of the group see; a sub-group has keys of its own. ------------------
 * Each waits up to `timeout_ms` (1 or more), for the server and, where it says so, for a key; TUTTI_TIMEOUT names the
 * key. Neither a failed nor a shut-down group keeps them from working. */

/** `value` is any bytes. */
tutti_result tutti_store_set(tutti_group* group, const char* key, const void* value, size_t nbytes, int64_t timeout_ms);

/** Waits until the key exists. *nbytes becomes the length of its value, which is copied to `value` if it fits into
 * `capacity` bytes; if not, nothing is, and the result is TUTTI_INVALID_ARGUMENT. `value` NULL with `capacity` 0 asks
 * for the length only. */
tutti_result tutti_store_get(tutti_group* group, const char* key, void* value, size_t capacity, size_t* nbytes,
                             int64_t timeout_ms);

/** Waits until all `count` keys exist. */
tutti_result tutti_store_wait(tutti_group* group, const char* const* keys, size_t count, int64_t timeout_ms);

/** Adds `delta` to the decimal number under `key` (0 if there is none); *sum (may be NULL) becomes the new value. */
tutti_result tutti_store_add(tutti_group* group, const char* key, int64_t delta, int64_t* sum, int64_t timeout_ms);

/** *exists becomes 1 if the key exists now, else 0. */
tutti_result tutti_store_check(tutti_group* group, const char* key, int* exists, int64_t timeout_ms);

/** *existed (may be NULL) becomes 1 if there was such a key, else 0. */
tutti_result tutti_store_delete(tutti_group* group, const char* key, int* existed, int64_t timeout_ms);

/* --- Registered buffers ---------------------------------------------------------------------------------------- */

/** Zeroed memory at a cache line's alignment. Collectives on it copy nothing where all ranks of the group run on one
 * host and all give such memory; anywhere else it is memory like any other. */
tutti_result tutti_allocate(tutti_group* group, size_t nbytes, tutti_buffer** buffer);

/** Where it is; `nbytes` may be NULL. */
tutti_result tutti_buffer_data(tutti_buffer* buffer, void** data, size_t* nbytes);

/** Not while an operation uses it. May be called after the group's end. */
tutti_result tutti_buffer_free(tutti_buffer* buffer);

/* --- Work ------------------------------------------------------------------------------------------------------ */

/** Waits for the end of the operation, and returns its result. */
tutti_result tutti_work_wait(tutti_work* work);

/** Waits up to `timeout_ms` (0 or more). *completed is 1 when it ended; the operation's result is then returned.
 * TUTTI_OK with *completed 0: it goes on. */
tutti_result tutti_work_wait_for(tutti_work* work, int64_t timeout_ms, int* completed);

/** The same without waiting. */
tutti_result tutti_work_test(tutti_work* work, int* completed);

/** After a completed tutti_irecv(): the rank that sent; -1 otherwise. */
tutti_result tutti_work_source(tutti_work* work, int* source);

/** Calls `callback(context)` once when the operation is complete, after success and after failure: at once if it is
 * complete already, else on the thread that completes it, which is one of the library's own or one that uses the group
 * or waits. The callback passes the event on and returns; it may call tutti_work_test() and tutti_work_free() for this
 * work, and nothing else of the library. It is called even if the work handle is freed before; tutti_free() of the
 * group returns after the last callback. */
tutti_result tutti_work_on_completion(tutti_work* work, void (*callback)(void* context), void* context);

/** Neither waits nor cancels: the operation's buffers are in use until it is complete. */
tutti_result tutti_work_free(tutti_work* work);

#ifdef __cplusplus
}
#endif
