//! Properties of users, groups and projects: what they use of a file system, and may use. The name of whom it is about
//! follows: `userquota@1000`.

use super::{PropError, Style};
use crate::nice;
use control::{DatasetKind, Owner};

/// A property of somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerProp {
    /// Of whom.
    pub owner: Owner,
    /// Of objects, not of space.
    pub objects: bool,
    /// What may be used, not what is.
    pub quota: bool,
}

const fn prop(owner: Owner, objects: bool, quota: bool) -> OwnerProp {
    OwnerProp { owner, objects, quota }
}

/// How names begin.
const PREFIXES: [(&str, OwnerProp); 12] = [
    ("userused@", prop(Owner::User, false, false)),
    ("userquota@", prop(Owner::User, false, true)),
    ("groupused@", prop(Owner::Group, false, false)),
    ("groupquota@", prop(Owner::Group, false, true)),
    ("userobjused@", prop(Owner::User, true, false)),
    ("userobjquota@", prop(Owner::User, true, true)),
    ("groupobjused@", prop(Owner::Group, true, false)),
    ("groupobjquota@", prop(Owner::Group, true, true)),
    ("projectused@", prop(Owner::Project, false, false)),
    ("projectquota@", prop(Owner::Project, false, true)),
    ("projectobjused@", prop(Owner::Project, true, false)),
    ("projectobjquota@", prop(Owner::Project, true, true)),
];

/// Users and groups have smaller numbers (Linux keeps the largest for nobody).
const ID_MAX: u64 = u32::MAX as u64 - 1;

impl OwnerProp {
    /// A property's name as what it is of, and of whom.
    pub fn parse(name: &str) -> Option<(Self, &str)> {
        PREFIXES.iter().find_map(|(prefix, prop)| Some((*prop, name.strip_prefix(prefix)?)))
    }

    /// Reads whom it is about, whose number is known, and the quota to be set: 0 is none.
    ///
    /// # Errors
    /// Why it will not do.
    pub fn parse_quota(
        self,
        name: &str,
        whose: &str,
        text: &str,
        kind: DatasetKind,
    ) -> Result<(u64, u64), PropError> {
        let id = Self::id(whose).ok_or_else(|| PropError::NoSuchOwner(name.to_owned()))?;
        match (self.quota, kind) {
            (false, _) => Err(PropError::ReadOnly(name.to_owned())),
            (true, DatasetKind::Filesystem) if text == "none" => Ok((id, 0)),
            (true, DatasetKind::Filesystem) => Ok((id, nice::parse(text)?)),
            (true, _) => Err(PropError::WrongType(name.to_owned())),
        }
    }

    /// A number that somebody could have.
    pub fn id(text: &str) -> Option<u64> {
        text.parse().ok().filter(|id| *id <= ID_MAX)
    }

    /// A value as a table shows it.
    pub fn show(self, value: u64, style: Style) -> String {
        match style {
            Style::Exact => value.to_string(),
            _ if self.quota && value == 0 => "none".to_owned(),
            _ if self.objects => nice::number(value),
            _ => nice::bytes(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_somebody_says_of_whom() {
        let (prop, whose) = OwnerProp::parse("userobjquota@joe").expect("one");
        assert_eq!((prop, whose), (super::prop(Owner::User, true, true), "joe"));
        assert_eq!(OwnerProp::parse("userquota"), None);
        assert_eq!(OwnerProp::parse("written@a"), None);
        assert_eq!(prop.parse_quota("userobjquota@7", "7", "2K", DatasetKind::Filesystem), Ok((7, 2048)));
        assert_eq!(prop.parse_quota("userobjquota@7", "7", "none", DatasetKind::Filesystem), Ok((7, 0)));
        for (name, kind, reason) in [
            ("userquota@joe", DatasetKind::Filesystem, "'userquota@joe' has an invalid user/group name"),
            (
                "userquota@4294967295",
                DatasetKind::Filesystem,
                "'userquota@4294967295' has an invalid user/group name",
            ),
            ("groupused@7", DatasetKind::Filesystem, "'groupused@7' is readonly"),
            (
                "projectquota@7",
                DatasetKind::Volume,
                "'projectquota@7' does not apply to datasets of this type",
            ),
        ] {
            let (prop, whose) = OwnerProp::parse(name).expect("one");
            let refused = prop.parse_quota(name, whose, "1G", kind).map_err(|e| e.to_string());
            assert_eq!(refused, Err(reason.to_owned()));
        }
    }

    #[test]
    fn space_is_shown_in_bytes_and_objects_are_counted() {
        let shown = |name, value, style| OwnerProp::parse(name).expect("one").0.show(value, style);
        assert_eq!(shown("userused@1", 0, Style::Dataset), "0B");
        assert_eq!(shown("userquota@1", 0, Style::Dataset), "none");
        assert_eq!(shown("userquota@1", 0, Style::Exact), "0");
        assert_eq!(shown("projectobjused@1", 1536, Style::Dataset), "1.50K");
        assert_eq!(shown("groupquota@1", 20 << 20, Style::Dataset), "20M");
    }
}
