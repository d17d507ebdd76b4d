#include <tutti/comm/base/error.h>
#include <tutti/comm/store/key_map.h>
#include <tutti/comm/store/prefix_store.h>

#include <utility>

namespace tutti::comm {

PrefixStore::PrefixStore(std::string prefix, std::shared_ptr<Store> store)
    : prefix_(std::move(prefix) + "/"), store_(std::move(store)) {
  if (store_ == nullptr) {
    throw Error(ErrorCode::InvalidArgument, "PrefixStore \"" + prefix_ + "\" was given no store to put its keys into");
  }
}

StoreResult PrefixStore::do_call(const StoreRequest& request, Deadline deadline) {
  StoreRequest joined = request;
  std::vector<std::string> keys;
  keys.reserve(request.body.strings.size());  // the views below stay valid
  for (std::size_t i = 0; i < request.body.strings.size(); i += key_stride(request.op)) {
    keys.push_back(prefix_ + std::string(request.body.strings[i]));
    joined.body.strings[i] = keys.back();
  }
  return store_->call(joined, deadline);
}

}  // namespace tutti::comm
