//! Making, destroying and renaming snapshots.

use crate::create::dataset_props;
use crate::datasets::cannot_open;
use crate::destruction::{self, together};
use crate::lineage::Lineage;
use crate::props::{Occasion, is_user_prop};
use crate::{Held, Holder, names, refusal};
use control::{
    DatasetKind, DatasetRename, Failure, FailureKind, NameValue, SnapshotCreate, SnapshotDestroy,
    SnapshotsGoing,
};
use dsl::PropValue;
use std::collections::{BTreeMap, BTreeSet};
use units::ObjectId;

impl Holder {
    pub(super) async fn create_snapshots(&self, call: SnapshotCreate) -> Result<(), Failure> {
        let held = self.pool(&call.pool)?;
        let names = if call.recursive {
            self.with_those_below(&held, &call.names).await?
        } else {
            call.names.clone()
        };
        let names = check_new(&call.pool, names)?;
        check_props(&call.props)?;
        let mut taken = Vec::new();
        for name in &names {
            if held.pool.dsl().resolve(name).await.is_ok() {
                taken.push(exists(name));
            }
        }
        if let Some(refusal) = together(taken) {
            return Err(refusal);
        }
        for name in &call.names {
            // What programs have written belongs to the snapshot, though the kernel may still keep it.
            self.mounts.write_back_below(names::head_of(name)).await;
        }
        let text = |(name, text)| (name, PropValue::Text(text));
        let props = call.props.into_iter().map(text).collect();
        held.pool.snapshot(names, props).await.map_err(|e| refusal::create_snapshots(&e))
    }

    /// Returns the snapshots to create: the named ones, and those of the same name of all datasets
    /// below, except partially received datasets.
    async fn with_those_below(&self, held: &Held, names: &[String]) -> Result<Vec<String>, Failure> {
        let mut all = Vec::new();
        for name in names {
            let root = names::head_of(name);
            let heads = held.pool.whole_datasets(root).await.map_err(|e| refusal::pool("open", root, &e))?;
            all.extend(heads.iter().map(|head| format!("{head}{}", &name[root.len()..])));
        }
        Ok(all)
    }

    pub(super) async fn destroy_snapshots(&self, call: SnapshotDestroy) -> Result<SnapshotsGoing, Failure> {
        let held = self.pool_of(&call.dataset)?;
        let lineage = self.lineage(&held).await?;
        let by_head = destruction::of_snapshots(&lineage, &call)?;
        let reclaimed_bytes = if call.dry_run { self.reclaimed(&held, &lineage, &by_head).await? } else { 0 };
        let snapshots: Vec<String> = by_head.into_iter().flat_map(|(_, snapshots)| snapshots).collect();
        let clones = if call.clones { destruction::clones_of(&lineage, &snapshots) } else { Vec::new() };
        if !call.dry_run {
            // Those of clones go with these.
            let rest: Vec<String> = snapshots.iter().filter(|name| !clones.contains(name)).cloned().collect();
            if !call.defer {
                self.refuse_held(&held, &rest).await?;
            }
            self.destroy_those(&held, &clones, call.force).await?;
            let _nobody_opens_them = self.let_go_of(&held, &rest).await;
            let gone = held.pool.destroy_snapshots(rest, call.defer).await;
            gone.map_err(|e| refusal::destroy_snapshots(&e))?;
        }
        Ok(SnapshotsGoing { snapshots, clones, reclaimed_bytes })
    }

    /// What nobody has but these snapshots, in bytes.
    async fn reclaimed(
        &self,
        held: &Held,
        lineage: &Lineage,
        by_head: &[(&str, Vec<String>)],
    ) -> Result<u64, Failure> {
        let mut bytes: u64 = 0;
        for (head, going) in by_head {
            for (first, last) in destruction::runs(lineage, head, going) {
                let row = held.pool.reclaimable(&first, &last).await;
                bytes = bytes.saturating_add(row.map_err(|e| refusal::pool("open", &last, &e))?);
            }
        }
        Ok(bytes)
    }

    /// Refuses when somebody holds a snapshot among these datasets.
    pub(super) async fn refuse_held(&self, held: &Held, going: &[String]) -> Result<(), Failure> {
        let mut refusals = Vec::new();
        for name in going {
            if name.contains('@') && !self.holds_on(held, name).await?.is_empty() {
                let why = format!("it's being held. Run 'zfs holds -r {name}' to see holders.");
                let line = format!("cannot destroy snapshot {name}: {why}");
                refusals.push(Failure::new(FailureKind::Busy, line));
            }
        }
        together(refusals).map_or(Ok(()), Err)
    }

    pub(super) async fn rename_snapshots(&self, call: &DatasetRename) -> Result<(), Failure> {
        let held = self.pool_of(&call.name)?;
        let pairs = renames(&self.lineage(&held).await?, call)?;
        if pairs.is_empty() {
            return Ok(());
        }
        let renamed = held.pool.rename_snapshots(pairs).await;
        renamed.map_err(|e| refusal::pool("rename", &call.name, &e))
    }

    /// What of a pool's datasets descends from what.
    pub(super) async fn lineage(&self, held: &Held) -> Result<Lineage, Failure> {
        let (dsl, pool) = (held.pool.dsl(), held.pool.name());
        let cannot = |e| cannot_open(&pool, e);
        let _view = held.pool.view().await;
        let (mut lineage, mut heads, mut by_object) = (Lineage::default(), Vec::new(), BTreeMap::new());
        for head in dsl.list(&pool).await.map_err(cannot)? {
            for snapshot in dsl.snapshots(&head).await.map_err(cannot)? {
                let phys = dsl.dataset(snapshot.dataset).await.map_err(cannot)?;
                lineage.add_snapshot(&snapshot.name, phys.creation_txg.get());
                by_object.insert(snapshot.dataset, snapshot.name);
            }
            heads.push((head.name, dsl.dir(head.dir).await.map_err(cannot)?.origin.get()));
        }
        for (name, origin) in heads {
            // Most have an origin that nobody sees.
            lineage.add_head(&name, by_object.get(&ObjectId::new(origin)).map(String::as_str));
        }
        Ok(lineage)
    }
}

fn exists(name: &str) -> Failure {
    Failure::cannot(FailureKind::Exists, "create snapshot", name, "dataset already exists")
}

/// Whether snapshots of these names could be made at the same time, if none is there; gives each name once.
///
/// # Errors
/// When a name cannot be a snapshot's, or two are of the same dataset, or not all of this pool.
pub fn check_new(pool: &str, names: Vec<String>) -> Result<Vec<String>, Failure> {
    let mut seen = BTreeSet::new();
    let names: Vec<String> = names.into_iter().filter(|name| seen.insert(name.clone())).collect();
    for name in &names {
        names::check_snapshot(name).map_err(|error| {
            Failure::cannot(FailureKind::Invalid, "create snapshot", name, &error.to_string())
        })?;
    }
    let heads: BTreeSet<&str> = names.iter().map(|name| names::head_of(name)).collect();
    if heads.len() < names.len() || heads.iter().any(|head| names::pool_of(head) != pool) {
        return Err(refuse_all("multiple snapshots of same fs not allowed"));
    }
    Ok(names)
}

/// Whether new snapshots could have these properties: users' own.
///
/// # Errors
/// When they could not.
pub fn check_props(props: &[NameValue]) -> Result<(), Failure> {
    if props.iter().any(|(name, _)| !is_user_prop(name)) {
        return Err(refuse_all("this property can not be modified for snapshots"));
    }
    dataset_props(props, DatasetKind::Snapshot, Occasion::Creation, &refuse_all)
        .map(|_: Vec<(_, PropValue)>| ())
}

fn refuse_all(reason: &str) -> Failure {
    Failure::new(FailureKind::Invalid, format!("cannot create snapshots : {reason}"))
}

/// The snapshots that a call renames, with their new names; none where the name stays.
///
/// # Errors
/// When the snapshot is not there, cannot get the new name, or a snapshot has it.
pub fn renames(lineage: &Lineage, call: &DatasetRename) -> Result<Vec<(String, String)>, Failure> {
    let name = call.name.as_str();
    if !lineage.has(name) {
        return Err(Failure::no_such_dataset(name));
    }
    if call.new_name == name {
        return Ok(Vec::new());
    }
    let last = new_last_name(name, &call.new_name)?;
    let olds = lineage.namesakes(name, call.recursive).into_iter();
    let pairs: Vec<(String, String)> =
        olds.map(|old| (old.clone(), format!("{}@{last}", names::head_of(&old)))).collect();
    if pairs.iter().any(|(_, new)| lineage.has(new)) {
        let reason = match call.recursive {
            true => "a child dataset already has a snapshot with the new name",
            false => "dataset already exists",
        };
        return Err(Failure::cannot(FailureKind::Exists, "rename", name, reason));
    }
    Ok(pairs)
}

/// What is to stand behind the `@`, as typed: `b`, `@b`, or the full name.
fn new_last_name(name: &str, typed: &str) -> Result<String, Failure> {
    let refuse = |reason: &str| Failure::cannot(FailureKind::Invalid, "rename to", typed, reason);
    let head = names::head_of(name);
    let last = match typed.split_once('@') {
        None => typed,
        Some((dataset, last)) if dataset.is_empty() || dataset == head => last,
        Some(_) => return Err(refuse("snapshots must be part of same dataset")),
    };
    names::check_snapshot(&format!("{head}@{last}")).map_err(|error| refuse(&error.to_string()))?;
    Ok(last.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines<T>(result: Result<T, Failure>) -> Result<T, String> {
        result.map_err(|failure| failure.stderr.join("\n"))
    }

    fn strings(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn snapshots_made_together_are_of_different_datasets_of_a_pool() {
        let check = |names: &[&str]| lines(check_new("p", strings(names)));
        assert_eq!(check(&["p@a", "p/x@a", "p@a"]), Ok(strings(&["p@a", "p/x@a"])));
        let many = "cannot create snapshots : multiple snapshots of same fs not allowed";
        assert_eq!(check(&["p@a", "p@b"]), Err(many.to_owned()));
        assert_eq!(check(&["p@a", "q@a"]), Err(many.to_owned()));
        assert_eq!(
            check(&["p@a", "p/x@b%"]),
            Err("cannot create snapshot 'p/x@b%': invalid character % in name".to_owned())
        );
        let long = format!("p/{}@a", "x".repeat(251));
        assert_eq!(check(&[&long]), Ok(vec![long.clone()]));
        assert_eq!(
            check(&[&format!("{long}b")]),
            Err(format!("cannot create snapshot '{long}b': name is too long"))
        );
    }

    #[test]
    fn new_snapshots_have_users_properties_only() {
        let check = |name: &str, value: &str| lines(check_props(&[(name.to_owned(), value.to_owned())]));
        assert_eq!(check("a:b", "c"), Ok(()));
        let refusal = "cannot create snapshots : this property can not be modified for snapshots";
        assert_eq!(check("compression", "on"), Err(refusal.to_owned()));
        assert_eq!(check("bogus", "on"), Err(refusal.to_owned()));
        assert_eq!(
            check("a:b", &"x".repeat(8192)),
            Err("cannot create snapshots : 'a:b' is too long".to_owned())
        );
    }

    #[test]
    fn a_snapshot_is_renamed_within_its_dataset_and_with_its_namesakes() {
        let mut family = Lineage::default();
        ["p", "p/a", "p/b"].iter().for_each(|name| family.add_head(name, None));
        [("p@1", 1), ("p/a@1", 1), ("p/a@2", 2)]
            .iter()
            .for_each(|(name, txg)| family.add_snapshot(name, *txg));
        let renames = |name: &str, new: &str, recursive| {
            let call = DatasetRename {
                name: name.to_owned(),
                new_name: new.to_owned(),
                recursive,
                ..DatasetRename::default()
            };
            lines(renames(&family, &call))
        };
        let one = |old: &str, new: &str| (old.to_owned(), new.to_owned());
        for new in ["3", "@3", "p@3"] {
            assert_eq!(renames("p@1", new, true), Ok(vec![one("p@1", "p@3"), one("p/a@1", "p/a@3")]));
        }
        assert_eq!(renames("p@1", "2", false), Ok(vec![one("p@1", "p@2")]));
        assert_eq!(renames("p@1", "p@1", true), Ok(Vec::new()));
        for (name, new, recursive, refusal) in [
            ("p@9", "2", false, "cannot open 'p@9': dataset does not exist"),
            ("p@1", "p/a@2", false, "cannot rename to 'p/a@2': snapshots must be part of same dataset"),
            ("p@1", "a/b", false, "cannot rename to 'a/b': trailing slash in name"),
            ("p/a@1", "@2", false, "cannot rename 'p/a@1': dataset already exists"),
            (
                "p@1",
                "2",
                true,
                "cannot rename 'p@1': a child dataset already has a snapshot with the new name",
            ),
        ] {
            assert_eq!(renames(name, new, recursive), Err(refusal.to_owned()), "{name} {new}");
        }
    }
}
