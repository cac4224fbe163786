//! Users, groups and projects in names of properties: `userquota@joe`.

use crate::session::Session;
use control::{DatasetAccounts, DatasetInfo, DatasetKind, Owner, Prop, Source, Value};
use engine::props::OwnerProp;
use nix::unistd::{Gid, Group, Uid, User};

/// The number of somebody who is given by name or number. Whoever has a number for a name is found by that name.
pub fn id_of(owner: Owner, whose: &str) -> Option<u64> {
    let named = match owner {
        Owner::User => User::from_name(whose).ok().flatten().map(|user| user.uid.as_raw()),
        Owner::Group => Group::from_name(whose).ok().flatten().map(|group| group.gid.as_raw()),
        Owner::Project => None,
    };
    named.map(u64::from).or_else(|| OwnerProp::id(whose))
}

/// The name of a user or group, if there is one of that number.
pub fn name_of(owner: Owner, id: u64) -> Option<String> {
    let id = u32::try_from(id).ok()?;
    match owner {
        Owner::User => Some(User::from_uid(Uid::from_raw(id)).ok()??.name),
        Owner::Group => Some(Group::from_gid(Gid::from_raw(id)).ok()??.name),
        Owner::Project => None,
    }
}

/// The name of a property with a number in place of a name, where it is about somebody who is known; others as they are.
pub fn numbered(property: &str) -> String {
    let known = OwnerProp::parse(property).and_then(|(prop, whose)| {
        let prefix = &property[..property.len() - whose.len()];
        Some(format!("{prefix}{}", id_of(prop.owner, whose)?))
    });
    known.unwrap_or_else(|| property.to_owned())
}

/// Puts what properties of somebody among `wanted` are to the datasets that have such.
pub fn put(session: &Session, datasets: &mut [DatasetInfo], wanted: &str) {
    let asked = wanted.split(',').filter_map(|word| {
        let (prop, whose) = OwnerProp::parse(word)?;
        Some((word, prop, id_of(prop.owner, whose)?))
    });
    for (word, prop, id) in asked {
        for dataset in datasets.iter_mut() {
            if let Some(value) = value(session, dataset, prop, id) {
                // As if somebody had set it: so OpenZFS has it.
                let shown = Prop { value: Value::Number(value), source: Source::Local };
                dataset.props.insert(word.to_owned(), shown);
            }
        }
    }
}

/// What a property of somebody is; none where there is no such, or this user may not see it.
fn value(session: &Session, dataset: &DatasetInfo, prop: OwnerProp, id: u64) -> Option<u64> {
    if !matches!(dataset.kind, DatasetKind::Filesystem | DatasetKind::Snapshot) {
        return None;
    }
    let call = DatasetAccounts { name: dataset.name.clone(), of: vec![prop.owner], id: Some(id) };
    let account = session.ask(&call).ok()?.into_iter().next()?;
    let figures = if prop.objects { account.objects } else { account.space }?;
    Some(if prop.quota { figures.quota } else { figures.used })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_stand_for_each_other() {
        assert_eq!(numbered("userquota@root"), "userquota@0");
        assert_eq!(numbered("groupobjused@root"), "groupobjused@0");
        assert_eq!(numbered("userused@12345"), "userused@12345");
        assert_eq!(numbered("projectquota@root"), "projectquota@root");
        assert_eq!(numbered("userquota@no such user"), "userquota@no such user");
        assert_eq!(numbered("com.example:userquota@root"), "com.example:userquota@root");
        assert_eq!(name_of(Owner::User, 0).as_deref(), Some("root"));
        assert_eq!(name_of(Owner::Project, 0), None);
        assert_eq!(name_of(Owner::Group, u64::MAX), None);
    }
}
