#include <tutti/comm/base/host_name.h>
#include <tutti/comm/wire/local_address.h>
#include <tutti/tools/doctor/host_checks.h>

#include <iterator>

namespace tutti::doctor {

Findings check_host() {
  const comm::Environment environment = comm::process_environment();
  const std::string own_address = comm::default_route_address();
  Findings all;
  for (Findings part :
       {check_names(comm::host_name(), environment, look_up), check_interfaces(list_interfaces(), own_address),
        check_ports(own_address, environment), check_limits(), check_cores(count_cores()), check_clock(),
        check_launcher(environment), check_gpu()})
    all.insert(all.end(), std::make_move_iterator(part.begin()), std::make_move_iterator(part.end()));
  return all;
}

}  // namespace tutti::doctor
