use proptest::prelude::*;

use super::*;

/// What NFSv4 gives a class of users: the first entry about each bit decides.
fn granted(aces: &[Ace], classes: &[u16]) -> u32 {
    let (mut allowed, mut denied) = (0, 0);
    for ace in aces.iter().filter(|ace| classes.contains(&(ace.flags & ace_flags::WHO))) {
        match ace.ace_type {
            ace_type::ALLOW => allowed |= ace.mask & !denied,
            _ => denied |= ace.mask & !allowed,
        }
    }
    allowed
}

const RWX: u32 = ace_mask::READ_DATA
    | ace_mask::WRITE_DATA
    | ace_mask::APPEND_DATA
    | ace_mask::EXECUTE
    | ace_mask::DELETE_CHILD;

#[test]
fn the_trivial_acl_grants_what_the_mode_does() {
    use ace_flags::{EVERYONE, OWNER, OWNING_GROUP};
    for mode in 0_u64..0o1000 {
        for is_dir in [false, true] {
            let aces = trivial(mode, is_dir);
            // An owner is in the group as well, or not: both get the owner's bits.
            for classes in [&[OWNER, EVERYONE][..], &[OWNER, OWNING_GROUP, EVERYONE]] {
                assert_eq!(granted(&aces, classes) & RWX, mask_of(mode >> 6 & 7, is_dir), "{mode:o} owner");
            }
            let group = granted(&aces, &[OWNING_GROUP, EVERYONE]);
            assert_eq!(group & RWX, mask_of(mode >> 3 & 7, is_dir), "{mode:o} group");
            assert_eq!(granted(&aces, &[EVERYONE]) & RWX, mask_of(mode & 7, is_dir), "{mode:o} other");
            assert_eq!(decode(&encode(&aces)), Ok(aces));
        }
    }
}

#[test]
fn common_modes_take_three_entries_of_eight_bytes() {
    for mode in [0o644, 0o755, 0o600, 0o777, 0] {
        assert_eq!(encode(&trivial(mode, false)).len(), 24);
    }
    assert_eq!(trivial(0o606, false).len(), 5);
    assert_eq!(trivial(0o077, false).len(), 4);
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), kind in 0_u8..12) {
        let mut bytes = bytes;
        if let Some(low) = bytes.first_mut() {
            *low = kind;
        }
        if let Ok(aces) = decode(&bytes) {
            prop_assert_eq!(encode(&aces), bytes.clone());
        }
        let _ = decode_old(&bytes);
    }
}

#[test]
fn old_entries_keep_who_unless_it_is_a_class() {
    let mut bytes = vec![7, 0, 0, 0, 1, 0, 0, 0, 0x40, 0, 1, 0];
    bytes.extend([0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 0x10, 0, 0]);
    let aces = decode_old(&bytes).expect("two entries");
    assert_eq!((aces[0].who, aces[0].ace_type, aces[0].mask), (Some(7), ace_type::DENY, 1));
    assert_eq!((aces[1].who, aces[1].flags), (None, ace_flags::OWNER));
    assert!(decode_old(&bytes[..13]).is_err());
}
