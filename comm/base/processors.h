// How many processors this process may use. Thread-safety: pure functions.
#pragma once

namespace tutti::comm {

/// By the affinity that it was started with or has set; 0 if that cannot be told.
int allowed_processors();

}  // namespace tutti::comm
