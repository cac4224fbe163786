//! Capabilities: none, in no set.
//!
//! The bounding set goes first, while the process has CAP_SETPCAP. The change of the user then
//! clears the effective, permitted and ambient sets by itself (capabilities(7)), and [`drop_all`]
//! clears the rest.

use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities,
};

/// Numbers of capabilities that a kernel could know.
const NUMBERS: u32 = 64;

const NONE: CapabilitySets = CapabilitySets {
    effective: CapabilitySet::empty(),
    permitted: CapabilitySet::empty(),
    inheritable: CapabilitySet::empty(),
};

/// Empties the bounding set. A process without CAP_SETPCAP keeps the set, as under a unit of
/// systemd that does not grant that capability. The set then bounds nothing that could happen: it
/// is about programs with capabilities of their own, and the process will neither get capabilities
/// from a program (`PR_SET_NO_NEW_PRIVS`) nor execute one.
///
/// # Errors
/// The system's.
pub(crate) fn empty_bounding_set() -> Result<(), Errno> {
    if !capabilities(None)?.effective.contains(CapabilitySet::SETPCAP) {
        return Ok(());
    }
    // The kernel refuses numbers beyond its last capability.
    let numbers = (0..NUMBERS).map(|number| CapabilitySet::from_bits_retain(1 << number));
    numbers
        .take_while(|capability| capability_is_in_bounding_set(*capability).is_ok())
        .try_for_each(remove_capability_from_bounding_set)
}

/// Gives up all capabilities.
///
/// # Errors
/// The system's, or `EPERM` if the process has a capability afterwards.
pub(crate) fn drop_all() -> Result<(), Errno> {
    clear_ambient_capability_set()?;
    set_capabilities(None, NONE)?;
    match capabilities(None)? == NONE {
        true => Ok(()),
        false => Err(Errno::PERM),
    }
}
