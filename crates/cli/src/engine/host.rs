//! Who this host is, as labels tell it to others.

use pool::Host;

const HOSTID_FILE: &str = "/etc/hostid";

/// Name and id of this host. The id is that of `/etc/hostid`, 0 where there is none.
pub fn this() -> Host {
    let id = std::fs::read(HOSTID_FILE).ok().as_deref().map_or(0, id_of);
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    Host { id, name }
}

/// The file holds 32 bits in the host's byte order; little-endian is all we run on.
fn id_of(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |id| u64::from(u32::from_le_bytes(*id)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_hostid_file_is_none() {
        assert_eq!(id_of(&[1, 2]), 0);
        assert_eq!(id_of(&[0x21, 0x43, 0x65, 0x87]), 0x8765_4321);
    }
}
