/* A rank of a job, in C89: uses every function of the C API that works on a group, and checks what comes out.
 *
 *     c_rank           prints "rank R of N: all well" and ends with 0, or says what was wrong and ends with 1
 *     c_rank mismatch  rank 0 reduces 3 elements, the others 4; prints the result's name and the text
 *     c_rank operator  an operator that fails at rank 1; the same
 *     c_rank dies      rank 1 ends in the middle; the others print the same
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/comm/c/tutti.h>

#define RANKS_MOST 8

static int failures = 0;

static void check_(int good, const char* what, int line) {
  if (!good) {
    fprintf(stderr, "line %d: %s is not so; last error: %s\n", line, what, tutti_last_error());
    ++failures;
  }
}
#define CHECK(condition) check_((condition) != 0, #condition, __LINE__)
#define OK(call) check_((call) == TUTTI_OK, #call, __LINE__)

/* The greater of two by absolute value. */
static int longest(void* target, const void* incoming, size_t count, tutti_dtype dtype, void* context) {
  int32_t* left = (int32_t*)target;
  const int32_t* right = (const int32_t*)incoming;
  size_t i;
  ++*(int*)context;
  if (dtype != TUTTI_INT32) return 7;
  for (i = 0; i < count; ++i)
    if (abs(right[i]) > abs(left[i])) left[i] = right[i];
  return 0;
}

static int refuses(void* target, const void* incoming, size_t count, tutti_dtype dtype, void* context) {
  (void)target, (void)incoming, (void)count, (void)dtype;
  return *(const int*)context == 0 ? 7 : 0;
}

static void collectives(tutti_group* group, int rank, int size) {
  int32_t data[3], all[3 * RANKS_MOST], sums[3 * RANKS_MOST];
  double wide = 0.5;
  float narrow = 0;
  tutti_work* work = NULL;
  int i;
  for (i = 0; i < 3; ++i) data[i] = 10 * rank + i;
  OK(tutti_broadcast(group, data, 3, TUTTI_INT32, size - 1));
  CHECK(data[2] == 10 * (size - 1) + 2);

  for (i = 0; i < 3; ++i) data[i] = 10 * rank + i;
  OK(tutti_gather(group, data, rank == 1 ? all : NULL, 3, TUTTI_INT32, 1));
  if (rank == 1)
    for (i = 0; i < 3 * size; ++i) CHECK(all[i] == 10 * (i / 3) + i % 3);
  OK(tutti_scatter(group, rank == 1 ? all : NULL, data, 3, TUTTI_INT32, 1));
  CHECK(data[1] == 10 * rank + 1);
  OK(tutti_all_gather(group, data, all, 3, TUTTI_INT32));
  CHECK(all[3 * size - 1] == 10 * (size - 1) + 2);
  OK(tutti_reduce_scatter(group, all, data, 3, TUTTI_INT32, TUTTI_SUM));
  CHECK(data[0] == size * 10 * rank);
  OK(tutti_all_to_all(group, all, sums, 3, TUTTI_INT32));
  for (i = 0; i < size; ++i) CHECK(sums[3 * i] == 10 * rank);
  OK(tutti_reduce(group, data, data, 3, TUTTI_INT32, TUTTI_MAX, 0));
  if (rank == 0) CHECK(data[0] == size * 10 * (size - 1));
  OK(tutti_all_reduce(group, sums, 1, TUTTI_INT32, TUTTI_SUM));
  CHECK(sums[0] == 10 * size * (size - 1) / 2);
  OK(tutti_all_reduce_rounded(group, &wide, &narrow, 1));
  CHECK(narrow == (float)(size * 0.5));
  wide = 0.25;
  OK(tutti_all_reduce_rounded_async(group, &wide, &narrow, 1, &work));
  OK(tutti_work_wait(work));
  OK(tutti_work_free(work));
  CHECK(narrow == (float)(size * 0.25));
  OK(tutti_barrier(group));
}

/* Rank r has r elements, each of value r. */
static void v_forms(tutti_group* group, int rank, int size) {
  double own[RANKS_MOST], whole[RANKS_MOST * RANKS_MOST], back[RANKS_MOST * RANKS_MOST];
  size_t counts[RANKS_MOST], received[RANKS_MOST], total = 0;
  int i;
  for (i = 0; i < size; ++i) {
    counts[i] = (size_t)i;
    received[i] = (size_t)rank;
    total += (size_t)i;
  }
  for (i = 0; i < rank; ++i) own[i] = rank;
  OK(tutti_all_gather_v(group, own, whole, counts, TUTTI_FLOAT64));
  CHECK(whole[0] == 1 && whole[total - 1] == size - 1);
  OK(tutti_gather_v(group, own, rank == 0 ? back : NULL, counts, TUTTI_FLOAT64, 0));
  if (rank == 0) CHECK(memcmp(whole, back, total * sizeof(double)) == 0);
  memset(own, 0, sizeof(own));
  OK(tutti_scatter_v(group, rank == 0 ? back : NULL, own, counts, TUTTI_FLOAT64, 0));
  if (rank > 0) CHECK(own[rank - 1] == rank && own[rank] == 0);
  OK(tutti_reduce_scatter_v(group, whole, own, counts, TUTTI_FLOAT64, TUTTI_PROD));
  if (rank == 2) CHECK(own[0] == (size == 3 ? 8 : own[0]));
  OK(tutti_all_to_all_v(group, whole, counts, back, received, TUTTI_FLOAT64));
  for (i = 0; i < rank * size; ++i) CHECK(back[i] == rank);
}

static void count_call(void* calls) { ++*(int*)calls; }

static void messages(tutti_group* group, int rank, int size) {
  const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
  float out = (float)rank, in = -1, sixteen[16], all[16 * RANKS_MOST];
  char text[16];
  size_t length = 0;
  int from = -1, source = -1, completed = 0, calls = 0, i;
  tutti_work *sending = NULL, *receiving = NULL;
  OK(tutti_sendrecv(group, &out, 1, next, 4, &in, 1, previous, 4, TUTTI_FLOAT32, &from));
  CHECK(in == (float)previous && from == previous);
  OK(tutti_irecv(group, &in, 1, TUTTI_FLOAT32, TUTTI_ANY_SOURCE, 5, &receiving));
  OK(tutti_isend(group, &out, 1, TUTTI_FLOAT32, previous, 5, &sending));
  OK(tutti_work_wait(receiving));
  OK(tutti_work_test(receiving, &completed));
  OK(tutti_work_source(receiving, &source));
  CHECK(completed == 1 && source == next && in == (float)next);
  OK(tutti_work_on_completion(receiving, count_call, &calls));
  CHECK(calls == 1); /* at once: it is complete */
  OK(tutti_work_wait_for(sending, 60000, &completed));
  CHECK(completed == 1);
  OK(tutti_work_free(receiving));
  OK(tutti_work_free(sending));
  for (i = 0; i < 16; ++i) sixteen[i] = (float)(rank + i);
  OK(tutti_all_reduce(group, sixteen, 16, TUTTI_FLOAT32, TUTTI_AVG));
  OK(tutti_all_gather_async(group, sixteen, all, 16, TUTTI_FLOAT32, &sending));
  OK(tutti_work_wait(sending));
  OK(tutti_work_wait(sending)); /* again */
  OK(tutti_work_free(sending));
  CHECK(all[0] == (float)(size - 1) / 2 && all[16 * size - 1] == all[0] + 15);
  OK(tutti_recent_operations(group, text, sizeof(text), &length));
  CHECK(length > sizeof(text) && text[sizeof(text) - 1] == '\0');
  if (rank == 0) OK(tutti_send(group, &out, 1, TUTTI_FLOAT32, 1, 6));
  if (rank == 1) OK(tutti_recv(group, &in, 1, TUTTI_FLOAT32, 0, 6, NULL));
}

static void operators_and_buffers(tutti_group* group, int rank, int size) {
  int calls = 0;
  int32_t value = rank % 2 == 0 ? rank : -rank, *shared = NULL;
  tutti_op op = -1;
  tutti_buffer* buffer = NULL;
  void* data = NULL;
  size_t nbytes = 0;
  tutti_work* work = NULL;
  OK(tutti_op_create("longest", longest, &calls, 1, &op));
  OK(tutti_all_reduce(group, &value, 1, TUTTI_INT32, op));
  CHECK(value == (size % 2 == 1 ? size - 1 : 1 - size));
  OK(tutti_op_free(op));
  CHECK(tutti_all_reduce(group, &value, 1, TUTTI_INT32, op) == TUTTI_INVALID_ARGUMENT);

  OK(tutti_allocate(group, 64, &buffer));
  OK(tutti_buffer_data(buffer, &data, &nbytes));
  CHECK(nbytes == 64);
  shared = (int32_t*)data;
  shared[15] = rank;
  OK(tutti_all_reduce_async(group, shared, 16, TUTTI_INT32, TUTTI_SUM, &work));
  OK(tutti_work_wait(work));
  CHECK(shared[15] == size * (size - 1) / 2 && shared[0] == 0);
  OK(tutti_work_free(work));
  OK(tutti_buffer_free(buffer));
}

static void groups_and_store(tutti_group* group, int rank, int size) {
  tutti_group *half = NULL, *pair = NULL;
  int32_t one = 1, members = 0;
  int64_t sum = 0;
  int world_ranks[RANKS_MOST], ranks[2], exists = 0;
  char text[64], invitation[TUTTI_INVITATION_SIZE];
  const char* keys[2];
  size_t length = 0;
  OK(tutti_split(group, rank % 2, 0, &half));
  OK(tutti_world_size(half, &members));
  OK(tutti_all_reduce(half, &one, 1, TUTTI_INT32, TUTTI_SUM));
  CHECK(one == members && members == (size + 1 - rank % 2) / 2);
  OK(tutti_world_ranks(half, world_ranks, RANKS_MOST));
  CHECK(world_ranks[members - 1] % 2 == rank % 2);
  OK(tutti_shutdown(half));
  OK(tutti_free(half));
  OK(tutti_split(group, rank == 0 ? -1 : 0, 0, &half));
  CHECK((half == NULL) == (rank == 0));
  OK(tutti_free(half)); /* NULL, at rank 0 */
  ranks[0] = 1;
  ranks[1] = 0;
  if (rank < 2) {
    OK(tutti_subgroup(group, ranks, 2, &pair));
    OK(tutti_barrier(pair));
    OK(tutti_free(pair));
  }
  OK(tutti_invite(1, 1, invitation, sizeof(invitation)));
  CHECK(strlen(invitation) > 100);
  sprintf(text, "from %d", rank);
  if (rank == size - 1) OK(tutti_store_set(group, "word", text, strlen(text), 60000));
  OK(tutti_store_get(group, "word", NULL, 0, &length, 60000));
  CHECK(length == 6);
  OK(tutti_store_get(group, "word", text, sizeof(text), &length, 60000));
  CHECK(length == 6 && text[5] == (char)('0' + size - 1));
  OK(tutti_store_add(group, "sum", 1, &sum, 60000));
  CHECK(sum >= 1 && sum <= size);
  keys[0] = "word";
  keys[1] = "sum";
  OK(tutti_store_wait(group, keys, 2, 60000));
  OK(tutti_barrier(group));
  if (rank == 0) OK(tutti_store_delete(group, "sum", &exists, 60000));
  OK(tutti_barrier(group));
  OK(tutti_store_check(group, "sum", &exists, 60000));
  CHECK(exists == 0);
}

static int all_well(tutti_group* group, int rank, int size) {
  tutti_group_info info;
  const char* failure = NULL;
  collectives(group, rank, size);
  v_forms(group, rank, size);
  messages(group, rank, size);
  operators_and_buffers(group, rank, size);
  groups_and_store(group, rank, size);
  info.struct_size = sizeof(info);
  OK(tutti_group_describe(group, &info));
  CHECK(info.rank == rank && info.world_size == size && strcmp(info.name, "world") == 0);
  OK(tutti_group_error(group, &failure));
  CHECK(failure[0] == '\0');
  OK(tutti_shutdown(group));
  OK(tutti_free(group));
  if (failures == 0) printf("rank %d of %d: all well\n", rank, size);
  return failures == 0 ? 0 : 1;
}

static int failing(const char* how, tutti_group* group, int rank) {
  int32_t values[4] = {0, 0, 0, 0};
  tutti_op op = TUTTI_SUM;
  const char* cause = NULL;
  tutti_result result, again;
  size_t count = 4;
  if (strcmp(how, "mismatch") == 0) count = rank == 0 ? 3 : 4;
  if (strcmp(how, "operator") == 0) OK(tutti_op_create("refuses", refuses, &rank, 1, &op));
  OK(tutti_barrier(group));
  if (strcmp(how, "dies") == 0 && rank == 1) exit(3);
  result = tutti_all_reduce(group, values, count, TUTTI_INT32, op);
  printf("%s: %s\n", tutti_result_name(result), tutti_last_error());
  again = tutti_barrier(group);
  OK(tutti_group_error(group, &cause));
  printf("then %s, cause: %s\n", tutti_result_name(again), cause);
  OK(tutti_free(group));
  return result == TUTTI_OK || again == TUTTI_OK || failures > 0 ? 1 : 0;
}

int main(int argc, char** argv) {
  tutti_group* group = NULL;
  int rank = -1, size = -1;
  if (tutti_abi_version() < TUTTI_C_ABI_VERSION) return 2;
  if (tutti_connect(NULL, NULL, &group) != TUTTI_OK) {
    fprintf(stderr, "%s\n", tutti_last_error());
    return 1;
  }
  OK(tutti_rank(group, &rank));
  OK(tutti_world_size(group, &size));
  return argc > 1 ? failing(argv[1], group, rank) : all_well(group, rank, size);
}
