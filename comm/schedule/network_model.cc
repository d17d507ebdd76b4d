#include <tutti/comm/schedule/network_model.h>

#include <algorithm>

namespace tutti::comm {

double seconds_on(const MeasuredCurve& curve, double bytes) {
  if (curve.empty()) return 0;
  const auto above = std::find_if(curve.begin(), curve.end(), [&](const auto& point) { return point.bytes >= bytes; });
  if (above == curve.begin()) return above->seconds;
  if (above == curve.end()) return curve.back().seconds * bytes / curve.back().bytes;
  const MeasuredMessage& below = *(above - 1);
  return below.seconds + (above->seconds - below.seconds) * (bytes - below.bytes) / (above->bytes - below.bytes);
}

double NetworkModel::message_seconds(double bytes, bool is_local) const {
  if (measured.empty()) return is_local ? local_alpha + bytes * local_beta : alpha + bytes * beta;
  return seconds_on(measured, bytes);
}

}  // namespace tutti::comm
