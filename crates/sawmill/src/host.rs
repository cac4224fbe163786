//! Who opens pools.

use pool::Host;

/// This host, as labels name it to others: the same for the daemon and for every program that uses
/// this library, so that each opens what another left at a crash.
#[must_use]
pub fn this_host() -> Host {
    let (uid, gid) = device::user_and_group();
    Host { id: device::host_id().into(), name: device::host_name(), uid, gid }
}
