//! NFSv4 ACLs (RFC 7530, 6.2.1): entries in order, and each right is settled by the first that names it.

use ondisk::acl::{Ace, ace_flags, ace_mask, ace_type};

use super::{Facts, User};

/// What an owner may whatever the ACL says, or nobody could mend it.
const OWNERS: u32 =
    ace_mask::READ_ACL | ace_mask::WRITE_ACL | ace_mask::READ_ATTRIBUTES | ace_mask::WRITE_ATTRIBUTES;

/// Whether an ACL allows a user all of `mask`. What no entry names is not allowed.
pub(super) fn allows(aces: &[Ace], user: &User, of: &Facts, mask: u32) -> bool {
    let mut open = if user.uid == of.uid { mask & !OWNERS } else { mask };
    for ace in aces.iter().filter(|ace| is_about(ace, user, of)) {
        match ace.ace_type {
            ace_type::ALLOW => open &= !ace.mask,
            ace_type::DENY if ace.mask & open != 0 => return false,
            // What audits and alarms, or is about objects of a directory service, gives and takes nothing.
            _ => {}
        }
        if open == 0 {
            break;
        }
    }
    open == 0
}

fn is_about(ace: &Ace, user: &User, of: &Facts) -> bool {
    let is_named = |number: u32| ace.who == Some(number.into());
    let is_in_force = ace.flags & ace_flags::INHERIT_ONLY == 0;
    is_in_force
        && match ace.flags & ace_flags::WHO {
            ace_flags::EVERYONE => true,
            ace_flags::OWNER => user.uid == of.uid,
            ace_flags::OWNING_GROUP => user.is_in(of.gid),
            ace_flags::IDENTIFIER_GROUP => is_named(user.gid) || user.groups.iter().copied().any(is_named),
            0 => is_named(user.uid),
            _ => false,
        }
}
