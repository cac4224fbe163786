//! Trivial ACLs: a mode said again as access control entries.
//!
//! Every object of a version 5 file system carries an NFSv4 ACL in `DACL_ACES`. Without
//! an ACL of its own it says no more than its mode does: entries for `owner@`, `group@`
//! and `everyone@`, preceded by denials where a later class may do what an earlier may not
//! (mode 0644 has three entries, 0604 has one to deny the group first). The kernel and
//! our fronts check the mode alone; OpenZFS checks the ACL, so it must be right.
//!
//! ```text
//!  one entry: 0 type (u16)   2 flags (u16)   4 access mask (u32)   8 end
//! ```

/// Bytes of an entry that names a class rather than an id.
const ACE_BYTES: usize = 8;

const ALLOW: u16 = 0;
const DENY: u16 = 1;

const FLAG_IDENTIFIER_GROUP: u16 = 0x0040;
const OWNER: u16 = 0x1000;
const OWNING_GROUP: u16 = 0x2000 | FLAG_IDENTIFIER_GROUP;
const EVERYONE: u16 = 0x4000;

const READ_DATA: u32 = 0x1;
const WRITE_DATA: u32 = 0x2;
const APPEND_DATA: u32 = 0x4;
const READ_NAMED_ATTRS: u32 = 0x8;
const WRITE_NAMED_ATTRS: u32 = 0x10;
const EXECUTE: u32 = 0x20;
const DELETE_CHILD: u32 = 0x40;
const READ_ATTRIBUTES: u32 = 0x80;
const WRITE_ATTRIBUTES: u32 = 0x100;
const READ_ACL: u32 = 0x2_0000;
const WRITE_ACL: u32 = 0x4_0000;
const WRITE_OWNER: u32 = 0x8_0000;
const SYNCHRONIZE: u32 = 0x10_0000;

/// What everybody may do with any file.
const BASE: u32 = READ_ACL | READ_ATTRIBUTES | READ_NAMED_ATTRS | SYNCHRONIZE;
/// What the owner may do beyond that.
const OWNER_EXTRA: u32 = WRITE_ATTRIBUTES | WRITE_OWNER | WRITE_ACL | WRITE_NAMED_ATTRS;

/// An ACL ready to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrivialAcl {
    /// The entries, for `DACL_ACES`.
    pub aces: Vec<u8>,
    /// How many, for `DACL_COUNT`.
    pub count: u64,
}

/// The access mask of one `rwx` triple.
fn access(rwx: u32, is_directory: bool) -> u32 {
    let write = WRITE_DATA | APPEND_DATA | if is_directory { DELETE_CHILD } else { 0 };
    let mut mask = 0;
    if rwx & 4 != 0 {
        mask |= READ_DATA;
    }
    if rwx & 2 != 0 {
        mask |= write;
    }
    if rwx & 1 != 0 {
        mask |= EXECUTE;
    }
    mask
}

impl TrivialAcl {
    /// The ACL that says what `mode`'s nine permission bits say.
    #[must_use]
    pub fn of_mode(mode: u32, is_directory: bool) -> Self {
        let (owner, group, other) = (mode >> 6 & 7, mode >> 3 & 7, mode & 7);
        let mut acl = Self { aces: Vec::with_capacity(6 * ACE_BYTES), count: 0 };
        // Each class is asked in turn and the first entry that speaks decides: what the
        // others may and the group may not must be granted to the owner first, then denied.
        acl.push_if(ALLOW, OWNER, access(owner & !group & other, is_directory));
        acl.push_if(DENY, OWNER, access(!owner & (group | other), is_directory));
        acl.push_if(DENY, OWNING_GROUP, access(!group & other, is_directory));
        acl.push(ALLOW, OWNER, BASE | OWNER_EXTRA | access(owner, is_directory));
        acl.push(ALLOW, OWNING_GROUP, BASE | access(group, is_directory));
        acl.push(ALLOW, EVERYONE, BASE | access(other, is_directory));
        acl
    }

    fn push_if(&mut self, kind: u16, who: u16, mask: u32) {
        if mask != 0 {
            self.push(kind, who, mask);
        }
    }

    fn push(&mut self, kind: u16, who: u16, mask: u32) {
        self.aces.extend_from_slice(&kind.to_le_bytes());
        self.aces.extend_from_slice(&who.to_le_bytes());
        self.aces.extend_from_slice(&mask.to_le_bytes());
        self.count += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a reader of the ACL concludes for a class: owner, group member or other.
    fn judged(acl: &TrivialAcl, applies: &[u16], wanted: u32) -> bool {
        let mut open = wanted;
        for ace in acl.aces.chunks(ACE_BYTES) {
            let kind = u16::from_le_bytes([ace[0], ace[1]]);
            let who = u16::from_le_bytes([ace[2], ace[3]]);
            let mask = u32::from_le_bytes([ace[4], ace[5], ace[6], ace[7]]);
            if !applies.contains(&who) {
                continue;
            }
            if kind == DENY && mask & open != 0 {
                return false;
            }
            open &= !mask;
            if open == 0 {
                return true;
            }
        }
        false
    }

    #[test]
    fn a_trivial_acl_allows_just_what_its_mode_allows() {
        for mode in 0..0o1000 {
            for is_directory in [false, true] {
                let acl = TrivialAcl::of_mode(mode, is_directory);
                assert_eq!(acl.aces.len() as u64, acl.count * ACE_BYTES as u64);
                for bit in 0..3 {
                    let wanted = access(1 << bit, is_directory);
                    let classes: [(&[u16], u32); 3] =
                        [(&[OWNER, EVERYONE], 6), (&[OWNING_GROUP, EVERYONE], 3), (&[EVERYONE], 0)];
                    for (applies, shift) in classes {
                        let expected = mode >> shift & (1 << bit) != 0;
                        assert_eq!(judged(&acl, applies, wanted), expected, "{mode:o} {shift} {bit}");
                    }
                }
            }
        }
    }

    #[test]
    fn common_modes_need_three_entries() {
        for mode in [0o755, 0o644, 0o700, 0o777, 0o600] {
            assert_eq!(TrivialAcl::of_mode(mode, false).count, 3, "{mode:o}");
        }
        assert_eq!(TrivialAcl::of_mode(0o604, false).count, 5);
    }
}
