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
 * Results: every function returns a code (tutti_base.h) and, unless that is TUTTI_OK, leaves a text for
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

#include <tutti/comm/c/tutti_base.h>
#include <tutti/comm/c/tutti_collectives.h>
#include <tutti/comm/c/tutti_messages.h>

#ifdef __cplusplus
extern "C" {
#endif

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
  const char* transport;      /**< "auto", "tcp", "shm"; NULL: TUTTI_TRANSPORT, else "auto" */
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
  const char* transport; /**< "shm", "tcp", "shm+tcp", "tcp+tls", "shm+tcp+tls", "inproc" */
} tutti_group_info;

/* --- The world ------------------------------------------------------------------------------------------------- */

/** Fills in the defaults. `struct_size` is sizeof(tutti_world_options). */
TUTTI_API tutti_result tutti_world_options_init(tutti_world_options* options, size_t struct_size);

/** Finds this process's place: options, then RANK, WORLD_SIZE, ... (torchrun's names), then the scheduler's variables,
 * then a world of one. `options` may be NULL. Opens no connection. */
TUTTI_API tutti_result tutti_world_detect(const tutti_world_options* options, tutti_world** world);

/** For programs that can bring a text from one process to the others by themselves: starts a store server on a free
 * port, for one group of `world_size` ranks, and writes the text that says where it is, with a 0 behind it. Each rank
 * gives it as tutti_world_options.store, with its rank and the world size; of the environment only TUTTI_JOB_SECRET is
 * read then. The process that called this is one of the ranks. `one_host` 1: all ranks run on this host. Any process
 * that has the text may join, unless TUTTI_JOB_SECRET is set, which all ranks must have then. `capacity` is
 * TUTTI_INVITATION_SIZE or more. */
TUTTI_API tutti_result tutti_invite(int world_size, int one_host, char* text, size_t capacity);

/** `info->struct_size` is set by the caller. */
TUTTI_API tutti_result tutti_world_describe(tutti_world* world, tutti_world_info* info);

/** Groups that were formed from it stay. */
TUTTI_API tutti_result tutti_world_free(tutti_world* world);

/* --- Groups ---------------------------------------------------------------------------------------------------- */

/** Fills in the defaults. `struct_size` is sizeof(tutti_group_options). */
TUTTI_API tutti_result tutti_group_options_init(tutti_group_options* options, size_t struct_size);

/** Forms the group of all ranks, waiting for them up to timeout_ms. `world` NULL: the one that tutti_world_detect()
 * finds; `options` NULL: the defaults. */
TUTTI_API tutti_result tutti_connect(tutti_world* world, const tutti_group_options* options, tutti_group** group);

/** This rank's number in the group, 0 .. world size - 1. */
TUTTI_API tutti_result tutti_rank(tutti_group* group, int* rank);

/** How many ranks the group has. */
TUTTI_API tutti_result tutti_world_size(tutti_group* group, int* world_size);

/** `info->struct_size` is set by the caller. */
TUTTI_API tutti_result tutti_group_describe(tutti_group* group, tutti_group_info* info);

/** The rank in the world of each rank of this group: `capacity` is its world size or more. */
TUTTI_API tutti_result tutti_world_ranks(tutti_group* group, int* ranks, size_t capacity);

/** Collective. Ranks that give the same `color` become a group, in the order of their keys, and of their ranks here
 * where keys are equal. A rank with a negative color gets none: *sub is NULL. */
TUTTI_API tutti_result tutti_split(tutti_group* group, int color, int key, tutti_group** sub);

/** The group of these `count` ranks (of `group`); only they call it, with the same list. */
TUTTI_API tutti_result tutti_subgroup(tutti_group* group, const int* ranks, size_t count, tutti_group** sub);

/** Collective: waits until all ranks have finished their operations, then closes. The handle stays, to be freed. */
TUTTI_API tutti_result tutti_shutdown(tutti_group* group);

/** Fails the group on all ranks with `reason`; their operations end within a second. */
TUTTI_API tutti_result tutti_abort(tutti_group* group, const char* reason);

/** Without tutti_shutdown() before, a goodbye of at most 5 s. Unfinished work fails. After TUTTI_OK no operation uses
 * its buffers any more, unless another thread is still in a call on this handle. */
TUTTI_API tutti_result tutti_free(tutti_group* group);

/** The first failure of the group that a call on this handle, or on a work handle of it, has returned: the cause that
 * all later calls repeat; "" while there is none. TUTTI_INVALID_ARGUMENT is no failure of a group. The text lives as
 * long as the handle. */
TUTTI_API tutti_result tutti_group_error(tutti_group* group, const char** text);

/** The latest operations of this rank, one a line, as far as `capacity` bytes go, the 0 at the end included; *length
 * (may be NULL) is that of the whole text. */
TUTTI_API tutti_result tutti_recent_operations(tutti_group* group, char* text, size_t capacity, size_t* length);

/* --- Registered buffers ---------------------------------------------------------------------------------------- */

/** Zeroed memory at a cache line's alignment. Collectives on it copy nothing where all ranks of the group run on one
 * host and all give such memory; anywhere else it is memory like any other. */
TUTTI_API tutti_result tutti_allocate(tutti_group* group, size_t nbytes, tutti_buffer** buffer);

/** Where it is; `nbytes` may be NULL. */
TUTTI_API tutti_result tutti_buffer_data(tutti_buffer* buffer, void** data, size_t* nbytes);

/** Not while an operation uses it. May be called after the group's end. */
TUTTI_API tutti_result tutti_buffer_free(tutti_buffer* buffer);

/* --- Work ------------------------------------------------------------------------------------------------------ */

/** Waits for the end of the operation, and returns its result. */
TUTTI_API tutti_result tutti_work_wait(tutti_work* work);

/** Waits up to `timeout_ms` (0 or more). *completed is 1 when it ended; the operation's result is then returned.
 * TUTTI_OK with *completed 0: it goes on. */
TUTTI_API tutti_result tutti_work_wait_for(tutti_work* work, int64_t timeout_ms, int* completed);

/** The same without waiting. */
TUTTI_API tutti_result tutti_work_test(tutti_work* work, int* completed);

/** After a completed tutti_irecv(): the rank that sent; -1 otherwise. */
TUTTI_API tutti_result tutti_work_source(tutti_work* work, int* source);

/** Calls `callback(context)` once when the operation is complete, after success and after failure: at once if it is
 * complete already, else on the thread that completes it, which is one of the library's own or one that uses the group
 * or waits. The callback passes the event on and returns; it may call tutti_work_test() and tutti_work_free() for this
 * work, and nothing else of the library. It is called even if the work handle is freed before; tutti_free() of the
 * group returns after the last callback. */
TUTTI_API tutti_result tutti_work_on_completion(tutti_work* work, void (*callback)(void* context), void* context);

/** Neither waits nor cancels: the operation's buffers are in use until it is complete. */
TUTTI_API tutti_result tutti_work_free(tutti_work* work);

#ifdef __cplusplus
}
#endif
