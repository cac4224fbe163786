//! The rules as tables: who, what is there, what is wanted, and the answer.

use ondisk::acl::{Ace, ace_flags, ace_mask, ace_type, trivial};

use super::*;
use crate::ZplError;
use crate::setattr::SetTime;

const OWNER: u32 = 10;
const GROUP: u32 = 20;

fn user(uid: u32, gid: u32, groups: &[u32]) -> User {
    User::new(uid, gid, groups.to_vec())
}

fn file(permissions: u32) -> Facts {
    Facts { kind: FileKind::File, permissions, uid: OWNER, gid: GROUP, flags: 0, acl: Acl::Mode }
}

fn directory(permissions: u32) -> Facts {
    Facts { kind: FileKind::Directory, ..file(permissions) }
}

fn ruled(aces: Vec<Ace>) -> Facts {
    Facts { acl: Acl::Nfs4(aces), ..file(0) }
}

fn named(ace_type: u16, flags: u16, mask: u32, who: u32) -> Ace {
    Ace { ace_type, flags, mask, who: Some(who.into()), object: None }
}

fn may(user: &User, of: &Facts, want: Want) -> bool {
    user.may(of, want).is_ok()
}

#[test]
fn the_most_particular_class_counts_and_no_other() {
    let (owner, member, other) = (user(OWNER, 1, &[]), user(1, 2, &[GROUP]), user(1, 2, &[3]));
    for (permissions, reads) in
        [(0o400, [true, false, false]), (0o040, [false, true, false]), (0o004, [false, false, true])]
    {
        let found = [&owner, &member, &other].map(|user| may(user, &file(permissions), Want::READ));
        assert_eq!(found, reads, "{permissions:o}");
    }
}

#[test]
fn root_does_all_but_execute_what_nobody_may() {
    let root = user(0, 0, &[]);
    assert!(may(&root, &file(0), Want::READ | Want::WRITE));
    assert!(!may(&root, &file(0o666), Want::EXECUTE));
    assert!(may(&root, &file(0o001), Want::EXECUTE));
    assert!(may(&root, &directory(0), Want::EXECUTE | Want::WRITE));
    let reader = User { powers: Powers::DAC_READ_SEARCH, ..user(1, 1, &[]) };
    assert!(may(&reader, &file(0), Want::READ) && !may(&reader, &file(0), Want::WRITE));
    assert!(
        may(&reader, &directory(0), Want::READ | Want::EXECUTE) && !may(&reader, &directory(0), Want::WRITE)
    );
}

#[test]
fn what_is_immutable_is_written_by_nobody() {
    let of = Facts { flags: flags::IMMUTABLE, ..file(0o777) };
    for user in [user(0, 0, &[]), user(OWNER, GROUP, &[])] {
        assert!(matches!(user.may(&of, Want::WRITE), Err(ZplError::NotPermitted(_))));
        assert!(may(&user, &of, Want::READ));
    }
}

#[test]
fn what_is_sticky_goes_by_its_owner_or_the_directorys() {
    let (dir, of) = (Facts { uid: 30, ..directory(0o1777) }, file(0));
    for (uid, goes) in [(OWNER, true), (30, true), (1, false), (0, true)] {
        assert_eq!(user(uid, 1, &[]).may_remove(&dir, &of).is_ok(), goes, "{uid}");
    }
    let refused = user(1, 1, &[]).may_remove(&Facts { permissions: 0o1755, ..dir }, &of);
    assert!(matches!(refused, Err(ZplError::AccessDenied)), "the right to write comes first");
}

#[test]
fn nfs4_entries_count_in_order_and_each_right_once() {
    let everyone = |ace_type, mask| Ace::abstract_who(ace_type, ace_flags::EVERYONE, mask);
    let (read, write) = (ace_mask::READ_DATA, ace_mask::WRITE_DATA);
    let (allow, deny) = (ace_type::ALLOW, ace_type::DENY);
    let user = user(7, 8, &[9]);
    for (aces, reads, writes) in [
        (vec![], false, false),
        (vec![everyone(allow, read)], true, false),
        (vec![named(deny, 0, write, 7), everyone(allow, read | write)], true, false),
        (vec![everyone(allow, read | write), named(deny, 0, write, 7)], true, true),
        (
            vec![named(allow, ace_flags::IDENTIFIER_GROUP, write, 9), everyone(deny, write | read)],
            false,
            true,
        ),
        (vec![named(allow, ace_flags::IDENTIFIER_GROUP, write, 7)], false, false),
        (
            vec![Ace::abstract_who(
                allow,
                ace_flags::EVERYONE | ace_flags::INHERIT_ONLY | ace_flags::FILE_INHERIT,
                read,
            )],
            false,
            false,
        ),
        (vec![Ace::abstract_who(allow, ace_flags::OWNER, read | write)], false, false),
        (vec![named(ace_type::AUDIT, 0, read, 7), everyone(allow, read)], true, false),
    ] {
        let of = ruled(aces.clone());
        assert_eq!((may(&user, &of, Want::READ), may(&user, &of, Want::WRITE)), (reads, writes), "{aces:?}");
    }
}

#[test]
fn the_trivial_acl_of_a_mode_answers_as_the_mode_does() {
    let users = [
        user(OWNER, 1, &[]),
        user(OWNER, GROUP, &[]),
        user(1, GROUP, &[]),
        user(1, 2, &[GROUP]),
        user(1, 2, &[]),
    ];
    for mode in 0..0o1000 {
        let (by_mode, by_acl) =
            (file(mode), Facts { acl: Acl::Nfs4(trivial(mode.into(), false)), ..file(mode) });
        for user in &users {
            for want in [Want::READ, Want::WRITE, Want::EXECUTE, Want::READ | Want::WRITE] {
                assert_eq!(may(user, &by_mode, want), may(user, &by_acl, want), "{mode:o} {user:?} {want:?}");
            }
        }
    }
}

#[test]
fn nfs4_lets_a_name_go_by_the_directory_or_by_what_it_stands_for() {
    let dir = Facts {
        acl: Acl::Nfs4(vec![Ace::abstract_who(ace_type::ALLOW, ace_flags::EVERYONE, ace_mask::EXECUTE)]),
        ..directory(0)
    };
    let of = |mask| ruled(vec![named(ace_type::ALLOW, 0, mask, 7)]);
    let user = user(7, 8, &[]);
    assert!(user.may_remove(&dir, &of(ace_mask::DELETE)).is_ok());
    assert!(user.may_remove(&dir, &of(ace_mask::WRITE_DATA)).is_err());
    let free = Facts {
        acl: Acl::Nfs4(vec![Ace::abstract_who(
            ace_type::ALLOW,
            ace_flags::EVERYONE,
            ace_mask::DELETE_CHILD | ace_mask::EXECUTE,
        )]),
        ..directory(0)
    };
    assert!(user.may_remove(&free, &of(0)).is_ok());
}

#[test]
fn only_owners_change_what_a_file_is_and_only_root_gives_it_away() {
    let none = SetAttributes::default();
    let (now, then) = (Some(SetTime::Now), Some(SetTime::To(crate::Timestamp { secs: 1, nanos: 0 })));
    let [owner, writer, root] = [user(OWNER, 1, &[40]), user(1, GROUP, &[]), user(0, 0, &[])];
    for (set, answers) in [
        (SetAttributes { permissions: Some(0o600), ..none }, [true, false, true]),
        (SetAttributes { uid: Some(OWNER), ..none }, [true, false, true]),
        (SetAttributes { uid: Some(1), ..none }, [false, false, true]),
        (SetAttributes { gid: Some(40), ..none }, [true, false, true]),
        (SetAttributes { gid: Some(41), ..none }, [false, false, true]),
        (SetAttributes { atime: then, ..none }, [true, false, true]),
        (SetAttributes { atime: now, mtime: now, ..none }, [true, true, true]),
        (SetAttributes { mtime: now, ..none }, [true, false, true]),
        (SetAttributes { size: Some(0), ..none }, [true, true, true]),
        (SetAttributes { set_flags: flags::NODUMP, ..none }, [true, false, true]),
        (SetAttributes { set_flags: flags::IMMUTABLE, ..none }, [false, false, true]),
        (SetAttributes { project: Some(7), ..none }, [true, false, true]),
    ] {
        let found = [&owner, &writer, &root].map(|user| user.may_change(&file(0o660), set).is_ok());
        assert_eq!(found, answers, "{set:?}");
    }
}

#[test]
fn set_group_id_goes_with_who_is_not_in_the_group() {
    let set = SetAttributes { permissions: Some(0o2755), ..SetAttributes::default() };
    let by = |groups: &[u32]| user(OWNER, 1, groups).may_change(&file(0), set).expect("his").permissions;
    assert_eq!((by(&[]), by(&[GROUP])), (Some(0o755), Some(0o2755)));
    let made = |groups: &[u32], mode| user(OWNER, 1, groups).permissions_of_new(mode, GROUP);
    assert_eq!((made(&[], 0o2755), made(&[], 0o2644), made(&[GROUP], 0o2755)), (0o755, 0o2644, 0o2755));
}

#[test]
fn attributes_of_administrators_are_theirs() {
    let (owner, root) = (user(OWNER, 1, &[]), user(0, 0, &[]));
    for (name, reads, writes) in
        [("user.a", true, true), ("trusted.a", false, false), ("security.a", true, false)]
    {
        let may = |user: &User, want| user.may_use_xattr(&file(0o600), name.as_bytes(), want).is_ok();
        assert_eq!(
            (may(&owner, Want::READ_XATTR), may(&owner, Want::WRITE_XATTR)),
            (reads, writes),
            "{name}"
        );
        assert!(may(&root, Want::READ_XATTR) && may(&root, Want::WRITE_XATTR));
    }
    assert!(!owner.sees_xattr(b"trusted.a") && root.sees_xattr(b"trusted.a"));
}
