// UcxLibrary: libucp's functions, loaded when they are first needed. Internal to ucx/; needs UCX's headers.
//
// Thread-safety: any thread. The library stays loaded until the process ends.
#pragma once

#include <tutti/comm/base/error.h>
#include <ucp/api/ucp.h>

#include <string>

namespace tutti::comm {

/// All that is used of it.
// clang-format off
#define TUTTI_UCX_FUNCTIONS(DO) \
  DO(ucp_get_version_string) DO(ucp_config_read) DO(ucp_config_modify) DO(ucp_config_release) DO(ucp_init_version) \
  DO(ucp_cleanup) DO(ucp_worker_create) DO(ucp_worker_destroy) DO(ucp_worker_get_efd) DO(ucp_worker_arm) \
  DO(ucp_worker_progress) DO(ucp_listener_create) DO(ucp_listener_destroy) DO(ucp_listener_query) DO(ucp_ep_create) \
  DO(ucp_ep_close_nbx) DO(ucp_ep_flush_nbx) DO(ucp_tag_send_nbx) DO(ucp_tag_recv_nbx) DO(ucp_mem_map) \
  DO(ucp_mem_unmap) DO(ucp_request_cancel) DO(ucp_request_free) DO(ucs_status_string)
// clang-format on

struct UcxLibrary {
#define TUTTI_UCX_MEMBER(name) decltype(&::name) name = nullptr;
  TUTTI_UCX_FUNCTIONS(TUTTI_UCX_MEMBER)
#undef TUTTI_UCX_MEMBER
  std::string refusal;  // why there are none; "" if there are

  /// Throws System: "UCX could not <what>: No such device".
  void require(ucs_status_t status, const std::string& what) const {
    if (status != UCS_OK) throw Error(ErrorCode::System, "UCX could not ", what, ": ", ucs_status_string(status));
  }
};

/// Loads it at the first call.
const UcxLibrary& ucx_library();

}  // namespace tutti::comm
