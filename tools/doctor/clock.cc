#include <sys/timex.h>
#include <tutti/tools/doctor/host_checks.h>

#include <cstdio>
#include <ctime>

namespace tutti::doctor {

Findings check_clock() {
  timex state{};
  const int status = ::adjtimex(&state);  // with modes 0: reads only
  char now[64] = {};
  const std::time_t seconds = std::time(nullptr);
  std::tm parts{};
  std::strftime(now, sizeof now, "%Y-%m-%d %H:%M:%S UTC", ::gmtime_r(&seconds, &parts));
  if (status < 0) return {{"clock", std::string(now) + "; whether it is synchronised cannot be seen"}};
  if (status == TIME_ERROR || (state.status & STA_UNSYNC) != 0)
    return {
        {"clock", std::string(now) + ", not synchronised", Verdict::Warn,
         "systemctl enable --now systemd-timesyncd (or chrony); jobs run, but times in logs of several hosts do not "
         "fit together"}};
  char value[128];
  std::snprintf(value, sizeof value, "%s, synchronised to %.1f ms", now, static_cast<double>(state.maxerror) / 1000);
  return {{"clock", value}};
}

}  // namespace tutti::doctor
