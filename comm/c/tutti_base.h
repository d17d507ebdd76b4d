/* What all of the C API shares: result codes, element types, operators, handles, error texts and versions.
 *
 * Included by tutti.h, which says how the whole is used. C89, and C++.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

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
TUTTI_API int tutti_abi_version(void);

/** Of the library that is loaded, "0.1.0". */
TUTTI_API const char* tutti_version(void);

/** "TUTTI_TIMEOUT"; "unknown result" for a number that is none. */
TUTTI_API const char* tutti_result_name(tutti_result result);

/** The text of this thread's latest call that did not return TUTTI_OK; "" before the first. Never NULL. Valid until
 * this thread's next call that fails. */
TUTTI_API const char* tutti_last_error(void);

/** Bytes of one element. */
TUTTI_API tutti_result tutti_size_of(tutti_dtype dtype, size_t* nbytes);

/** Combines `count` elements: target[i] = target[i] (+) incoming[i]. The memories do not overlap. Called on whichever
 * thread runs the collective, with pieces of any length; it must use no function of this library on the group. Returns
 * 0, or anything else to fail the operation, and with it the group, on all ranks. Which ranks call it is up to
 * the algorithm: one may add for all. No C++ exception and no longjmp may leave it. */
typedef int (*tutti_combine)(void* target, const void* incoming, size_t count, tutti_dtype dtype, void* context);

/** Makes an operator of the caller's, associative up to rounding. `name` is equal on all ranks for the same operator,
 * different for different ones: ranks compare it. `commutative` 0: target always holds the contributions of ranks below
 * incoming's. `context` is handed to `combine` and must live until the last operation with it is complete. */
TUTTI_API tutti_result tutti_op_create(const char* name, tutti_combine combine, void* context, int commutative,
                                       tutti_op* op);

/** Operations in flight keep what they need. The number is not used again. */
TUTTI_API tutti_result tutti_op_free(tutti_op op);

#ifdef __cplusplus
}
#endif
