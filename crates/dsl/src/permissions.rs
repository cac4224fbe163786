//! Permissions that were delegated: who may do what with datasets though they are not his (`zfs allow`).
//!
//! ```text
//!  Dir ─ permissions ─► ZAP:  "ul$1000"  ─► ZAP: "snapshot", "mount"     user 1000, on the dataset itself
//!                             "Ud$1000"  ─► ZAP: "@ops"                  the same user, below it: a set
//!                             "gl$77", "el$", …                          a group, everyone
//!                             "s-$@ops"  ─► ZAP: "create", "rename"      what the set is; "S-$@ops": sets in it
//!                             "c-$"      ─► ZAP: "destroy"               whoever makes a dataset below gets these
//! ```
//! A small letter is for permissions, a capital one for sets of them. What a dir says of what is below it counts for all
//! below; sets are known where they are defined and below that. A set that is defined on several dirs is what the nearest
//! of them says, as in OpenZFS. (test: `the_nearest_definition_of_a_set_hides_those_above`)

use std::collections::{BTreeMap, BTreeSet};

use dmu::Tx;
use dmu::zap::{Zap, ZapSpec};
use env::boxed;
use ondisk::ObjectType;
use units::ObjectId;
use zerocopy::little_endian::U64;

use crate::props::remove_if_there;
use crate::tree::named_objects;
use crate::{DatasetName, Dsl, DslError};

/// Permissions by key.
pub type Permissions = BTreeMap<String, BTreeSet<String>>;

/// Who asks for something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asker {
    /// User.
    pub uid: u32,
    /// All groups, the first one too.
    pub gids: Vec<u32>,
}

impl Asker {
    /// Keys that are about him, with this letter for the place: of permissions, or of sets.
    fn keys(&self, place: char, of_sets: bool) -> impl Iterator<Item = String> {
        let case = move |letter: char| if of_sets { letter.to_ascii_uppercase() } else { letter };
        let user = format!("{}{place}${}", case('u'), self.uid);
        let groups: Vec<String> = self.gids.iter().map(|gid| format!("{}{place}${gid}", case('g'))).collect();
        [user, format!("{}{place}$", case('e'))].into_iter().chain(groups)
    }
}

/// What is said on the dataset itself counts.
const LOCAL: char = 'l';
/// What is said of those below counts.
const BELOW: char = 'd';

/// Whether somebody has a permission, by what a dataset and those above it say, the nearest first. Of a snapshot, and of
/// what is about to be made there (`below`), what the first says of itself does not count.
#[must_use]
pub fn is_granted(levels: &[Permissions], asker: &Asker, permission: &str, below: bool) -> bool {
    // Sets that the asker has, and whose definition is on this level or above it.
    let mut sets: BTreeSet<String> = BTreeSet::new();
    // Sets whose definition is found. What a level above says of them does not count.
    let mut defined: BTreeSet<String> = BTreeSet::new();
    let mut place = if below { BELOW } else { LOCAL };
    for level in levels {
        let grants = |key: String| level.get(&key).is_some_and(|all| all.contains(permission));
        let named = asker.keys(place, true).filter_map(|key| level.get(&key)).flatten();
        sets.extend(named.filter(|set| !defined.contains(*set)).cloned());
        while let Some(set) = sets.iter().find(|set| is_defined(level, set)).cloned() {
            if grants(format!("s-${set}")) {
                return true;
            }
            // Sets may have sets in them.
            sets.remove(&set);
            defined.insert(set.clone());
            let inner = level.get(&format!("S-${set}")).into_iter().flatten();
            sets.extend(inner.filter(|inner| !defined.contains(*inner)).cloned());
        }
        if asker.keys(place, false).any(grants) {
            return true;
        }
        place = BELOW;
    }
    false
}

/// True if a level says what is in a set.
fn is_defined(level: &Permissions, set: &str) -> bool {
    ["s-$", "S-$"].iter().any(|kind| level.contains_key(&format!("{kind}{set}")))
}

impl Dsl {
    /// What a dataset and those above it say, the nearest first, with their names; some say nothing.
    ///
    /// # Errors
    /// Damage, and those of reading the MOS.
    #[boxed]
    pub async fn permissions(&self, of: &DatasetName) -> Result<Vec<(String, Permissions)>, DslError> {
        let mut name = crate::names::split(&of.name).0;
        let mut levels = Vec::new();
        for dir in self.loaded_dir(of.dir).await?.ancestry() {
            let said = self.permissions_in(dir.phys().permissions.get()).await?;
            levels.push((name.to_owned(), said));
            name = name.rsplit_once('/').map_or(name, |(above, _)| above);
        }
        Ok(levels)
    }

    async fn permissions_in(&self, object: u64) -> Result<Permissions, DslError> {
        let mut all = Permissions::new();
        if object == 0 {
            return Ok(all);
        }
        for (key, list) in named_objects(&self.zap(object).await?).await? {
            let names = self.zap(list.get()).await?.all().await?.into_iter();
            let names = names.map(|entry| String::from_utf8_lossy(&entry.name).into_owned());
            all.insert(key, names.collect());
        }
        Ok(all)
    }

    /// Grants permissions.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn allow(&self, tx: &Tx, dir: ObjectId, granted: &Permissions) -> Result<(), DslError> {
        let dir = self.loaded_dir(dir).await?;
        let table = match dir.phys().permissions.get() {
            0 => {
                let made = self.create_zap(tx, ObjectType::DSL_PERMS).await?.get();
                dir.change(tx, |phys| phys.permissions = U64::new(made))?;
                made
            }
            table => table,
        };
        let table = self.zap(table).await?;
        for (key, names) in granted {
            let list = match table.lookup_u64(key.as_bytes()).await? {
                Some(list) => self.zap(list).await?,
                None => {
                    let list = Zap::create(&self.mos, tx, &ZapSpec::new(ObjectType::DSL_PERMS)).await?;
                    table.add_u64(tx, key.as_bytes(), list.object().get()).await?;
                    list
                }
            };
            for name in names {
                list.update_u64(tx, name.as_bytes(), 0).await?;
            }
        }
        Ok(())
    }

    /// Takes permissions back: those that are named of a key, or all of it.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn unallow(
        &self,
        tx: &Tx,
        dir: ObjectId,
        taken: &BTreeMap<String, Option<BTreeSet<String>>>,
    ) -> Result<(), DslError> {
        let object = self.dir(dir).await?.permissions.get();
        if object == 0 {
            return Ok(());
        }
        let table = self.zap(object).await?;
        for (key, names) in taken {
            let Some(list) = table.lookup_u64(key.as_bytes()).await? else { continue };
            let list = self.zap(list).await?;
            for name in names.iter().flatten() {
                remove_if_there(&list, tx, name).await?;
            }
            if names.is_none() || list.all().await?.is_empty() {
                table.remove(tx, key.as_bytes()).await?;
                self.mos.free_object(tx, list.object()).await?;
            }
        }
        Ok(())
    }

    /// Whoever made a dataset gets there what those above grant to makers.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn grant_to_maker(&self, tx: &Tx, made: &DatasetName, uid: u32) -> Result<(), DslError> {
        let mut granted = Permissions::new();
        for (_, level) in self.permissions(made).await?.into_iter().skip(1) {
            for (from, to) in [("c-$", 'u'), ("C-$", 'U')] {
                if let Some(names) = level.get(from) {
                    granted.entry(format!("{to}{LOCAL}${uid}")).or_default().extend(names.iter().cloned());
                }
            }
        }
        match granted.is_empty() {
            true => Ok(()),
            false => self.allow(tx, made.dir, &granted).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn level(said: &[(&str, &[&str])]) -> Permissions {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        said.iter().map(|(key, granted)| ((*key).to_owned(), names(granted))).collect()
    }

    #[test]
    fn permissions_are_found_by_user_group_and_set_here_and_above() {
        let levels = [
            level(&[("ul$7", &["mount"]), ("ud$7", &["rename"]), ("El$", &["@ops"])]),
            level(&[("gd$70", &["snapshot"]), ("gl$70", &["destroy"]), ("Ud$8", &["@outer"])]),
            level(&[("s-$@ops", &["hold"]), ("S-$@outer", &["@inner"]), ("s-$@inner", &["send"])]),
        ];
        let seven = Asker { uid: 7, gids: vec![70, 71] };
        let eight = Asker { uid: 8, gids: vec![80] };
        let granted = |who: &Asker, name| is_granted(&levels, who, name, false);
        assert!(granted(&seven, "mount") && granted(&seven, "snapshot") && granted(&seven, "hold"));
        assert!(!granted(&seven, "rename"), "that is for what is below");
        assert!(!granted(&seven, "destroy"), "that is for the dataset above itself");
        assert!(!granted(&eight, "mount") && !granted(&eight, "snapshot"));
        assert!(granted(&eight, "send") && granted(&eight, "hold"), "sets in sets, and everybody's");
        let below = |name| is_granted(&levels, &seven, name, true);
        assert!(below("rename") && below("snapshot") && !below("mount") && !below("hold"));
    }

    #[test]
    fn a_set_is_known_only_where_it_is_defined_and_below() {
        let user = Asker { uid: 7, gids: Vec::new() };
        let above = level(&[("Ud$7", &["@ops"])]);
        let here = level(&[("s-$@ops", &["send"])]);
        assert!(!is_granted(&[here, above], &user, "send", false));
    }

    #[test]
    fn the_nearest_definition_of_a_set_hides_those_above() {
        let user = Asker { uid: 7, gids: Vec::new() };
        let granted = |here: &[(&str, &[&str])], above: &[(&str, &[&str])], name| {
            is_granted(&[level(here), level(above)], &user, name, false)
        };
        let above: &[(&str, &[&str])] = &[("Ud$7", &["@ops"]), ("s-$@ops", &["destroy", "send"])];
        let has_set: (&str, &[&str]) = ("Ul$7", &["@ops"]);
        let here: &[(&str, &[&str])] = &[has_set, ("s-$@ops", &["send"])];
        assert!(granted(here, above, "send") && !granted(here, above, "destroy"));
        // A definition that has only other sets is one, too.
        let here: &[(&str, &[&str])] = &[has_set, ("S-$@ops", &["@less"]), ("s-$@less", &["hold"])];
        assert!(granted(here, above, "hold") && !granted(here, above, "destroy"));
        // Below the first definition, an inner set is what the nearest level says.
        let here: &[(&str, &[&str])] = &[has_set, ("S-$@ops", &["@inner"])];
        let inner_above: &[(&str, &[&str])] = &[("s-$@inner", &["hold"]), ("s-$@ops", &["destroy"])];
        assert!(granted(here, inner_above, "hold") && !granted(here, inner_above, "destroy"));
        // A level that says nothing of the set hides nothing.
        assert!(granted(&[has_set], above, "destroy"));
    }

    #[test]
    fn sets_that_have_each_other_come_to_an_end() {
        let user = Asker { uid: 7, gids: Vec::new() };
        let level = level(&[("Ul$7", &["@a"]), ("S-$@a", &["@b"]), ("S-$@b", &["@a"]), ("s-$@b", &["send"])]);
        assert!(is_granted(std::slice::from_ref(&level), &user, "send", false));
        assert!(!is_granted(std::slice::from_ref(&level), &user, "mount", false));
    }
}
