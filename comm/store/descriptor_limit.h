// How many descriptors this process may have open: counted up front, rather than missed one by one. For comm and
// the launcher.
#pragma once

#include <cstddef>
#include <string>

namespace tutti::comm {

/// Makes sure that `count` descriptors more than are open now may be opened, raising this process's soft limit (which
/// its children inherit) if it must, and never lowering it. Throws System naming `what` needs them, the number and the
/// hard limit, where that is too low. Thread-safety: may be called from any thread.
void raise_descriptor_limit(std::size_t count, const std::string& what);

/// The same, but as far as the hard limit goes and without a word. True if the soft limit has become higher.
bool try_raise_descriptor_limit(std::size_t count);

/// Before a group of `ranks` forms: raises the soft limit by what it may come to open, later as well, as far as the
/// hard limit goes. Throws System, as above, if there is no room for what each group has.
void make_room_for_group(const std::string& name, std::size_t ranks);

}  // namespace tutti::comm
