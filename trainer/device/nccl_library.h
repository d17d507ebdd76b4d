// The functions of NCCL that nccl_collectives.cc calls, under their own names; opened when ranks first use it, so that
// a program that was built with NCCL starts and runs without. Private to trainer/device.
#pragma once

#include <nccl.h>

#include <string>

#define TUTTI_NCCL_FUNCTIONS(F) \
  F(ncclAllGather)              \
  F(ncclAllReduce)              \
  F(ncclBroadcast)              \
  F(ncclCommAbort)              \
  F(ncclCommGetAsyncError)      \
  F(ncclCommInitRankConfig)     \
  F(ncclGetErrorString)         \
  F(ncclGetLastError)           \
  F(ncclGetUniqueId)            \
  F(ncclGroupEnd)               \
  F(ncclGroupStart)             \
  F(ncclRecv)                   \
  F(ncclReduce)                 \
  F(ncclReduceScatter)          \
  F(ncclSend)

namespace tutti::trainer {

struct Nccl {
#define TUTTI_DECLARE(function) decltype(&::function) function = nullptr;
  TUTTI_NCCL_FUNCTIONS(TUTTI_DECLARE)
#undef TUTTI_DECLARE
};

/// Throws std::runtime_error when the library cannot be loaded, in the dynamic linker's words.
const Nccl& nccl();

}  // namespace tutti::trainer
