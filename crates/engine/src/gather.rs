//! What a package says of a tree of datasets: gathered where it is sent, and where it is received to compare the two.

use crate::names;
use crate::package::Member;
use crate::props::{Access, dataset_prop, is_user_prop};
use crate::{Held, Holder, refusal};
use control::{Failure, FailureKind};
use dsl::{DatasetName, DslError, PropValue, Property};
use ondisk::NvList;
use pool::Sealed;

/// What of it is to be told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathering {
    pub fromsnap: Option<String>,
    /// None: of all snapshots that there are.
    pub tosnap: Option<String>,
    /// All below, too.
    pub recursive: bool,
    /// All snapshots in between.
    pub all: bool,
    pub props: bool,
    /// Of properties only those that came with a stream.
    pub received: bool,
    pub holds: bool,
    /// A dataset without the snapshot is left out with all below it.
    pub skip_missing: bool,
    /// Datasets that are left out, together with all datasets below them.
    pub excluded: Vec<String>,
}

impl Gathering {
    fn excludes(&self, dataset: &str) -> bool {
        self.excluded.iter().any(|root| names::is_within(dataset, root))
    }
}

/// What was gathered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Gathered {
    pub members: Vec<Member>,
    /// Datasets that were left out for they have not the snapshot.
    pub skipped: Vec<String>,
}

/// A snapshot.
struct Snap {
    name: String,
    dataset: DatasetName,
    guid: u64,
    txg: u64,
}

impl Holder {
    pub(crate) async fn gather(&self, held: &Held, root: &str, how: &Gathering) -> Result<Gathered, Failure> {
        let mut gathered = Gathered::default();
        // The whole tree is listed as of one moment.
        let _view = held.pool.view().await;
        // Those below come right behind the one that they are below.
        let mut todo = vec![(self.dataset(held, root).await?, 0, 0)];
        while let Some((dataset, parent_from, tosnap_txg)) = todo.pop() {
            let is_left_out = how.excludes(&dataset.name);
            let cannot = |error: DslError| refusal::pool("open", &dataset.name, &error.into());
            let snaps = self.snaps_of(held, &dataset).await.map_err(cannot)?;
            let to = match is_left_out {
                true => Some(named(&snaps, how.tosnap.as_ref()).map_or(tosnap_txg, |snap| snap.txg)),
                false => to_txg(held, root, &dataset, &snaps, how, tosnap_txg, &mut gathered).await?,
            };
            let Some(tosnap_txg) = to else { continue };
            if !is_left_out && how.recursive && how.tosnap.is_some() {
                check_earlier(&dataset.name, named(&snaps, how.fromsnap.as_ref()), how, tosnap_txg)?;
            }
            let is_encrypted =
                held.pool.sealed(&dataset.name).await.is_ok_and(|sealed| sealed == Some(Sealed::Encrypted));
            if is_encrypted && !is_left_out {
                let reason = "sending an encrypted dataset is not supported yet";
                let line = format!("warning: cannot send '{}': {reason}", dataset.name);
                return Err(Failure::new(FailureKind::Unsupported, line));
            }
            let (mut member, from) =
                self.member(held, &dataset, &snaps, how, parent_from, tosnap_txg).await.map_err(cannot)?;
            let origin = origin_of(held, &dataset).await.map_err(cannot)?;
            (member.origin, member.origin_name) = origin.unzip();
            member.is_left_out = is_left_out;
            gathered.members.push(member);
            if how.recursive {
                let below = held.pool.dsl().children_as_stored(&dataset).await.map_err(cannot)?;
                todo.extend(below.into_iter().rev().map(|child| (child, from, tosnap_txg)));
            }
        }
        Ok(gathered)
    }

    /// Snapshots of a dataset, the oldest first.
    async fn snaps_of(&self, held: &Held, dataset: &DatasetName) -> Result<Vec<Snap>, DslError> {
        let dsl = held.pool.dsl();
        let mut snaps = Vec::new();
        for snapshot in dsl.snapshots(dataset).await? {
            let phys = dsl.dataset(snapshot.dataset).await?;
            let name = snapshot.name.rsplit('@').next().unwrap_or_default().to_owned();
            let (guid, txg) = (phys.guid.get(), phys.creation_txg.get());
            snaps.push(Snap { name, dataset: snapshot, guid, txg });
        }
        snaps.sort_by_key(|snap| snap.txg);
        Ok(snaps)
    }

    /// What is told of a dataset, and the guid of the snapshot that a receiver has of it before those below it come.
    async fn member(
        &self,
        held: &Held,
        dataset: &DatasetName,
        snaps: &[Snap],
        how: &Gathering,
        parent_from: u64,
        tosnap_txg: u64,
    ) -> Result<(Member, u64), DslError> {
        let dsl = held.pool.dsl();
        let phys = dsl.dataset(dataset.dataset).await?;
        let tells_props = how.props || how.received || how.recursive;
        let props = match tells_props {
            true => Some(list_of(dsl.own_props(dataset, how.received).await?)),
            false => None,
        };
        let mut member = Member {
            guid: phys.guid.get(),
            name: dataset.name.clone(),
            parent_from,
            props,
            snap_holds: how.holds.then(Vec::new),
            ..Member::default()
        };
        let from_txg = named(snaps, how.fromsnap.as_ref()).map(|snap| snap.txg);
        let (mut from, mut is_after) = (0, how.fromsnap.is_none() || how.recursive);
        for snap in snaps {
            let is_from = Some(&snap.name) == how.fromsnap.as_ref();
            let is_to = Some(&snap.name) == how.tosnap.as_ref();
            let is_between = from_txg.is_none_or(|txg| snap.txg >= txg);
            let is_told = how.recursive || how.tosnap.is_none() || is_to || how.all && is_between;
            if !is_told || tosnap_txg != 0 && snap.txg > tosnap_txg {
                continue;
            }
            member.snaps.push((snap.name.clone(), snap.guid));
            if is_from || from == 0 && is_to {
                from = snap.guid;
            }
            if is_from && !is_after {
                is_after = true;
                continue;
            }
            if !is_after && !is_to {
                continue;
            }
            let props = list_of(dsl.own_props(&snap.dataset, how.received).await?);
            member.snap_props.push((snap.name.clone(), props));
            if let Some(holds) = &mut member.snap_holds {
                let mut tags = NvList::new();
                for (tag, since) in dsl.holds(snap.dataset.dataset).await? {
                    tags.add_u64(&tag, since);
                }
                holds.push((snap.name.clone(), tags));
            }
        }
        Ok((member, from))
    }
}

fn named<'a>(snaps: &'a [Snap], name: Option<&String>) -> Option<&'a Snap> {
    snaps.iter().find(|snap| Some(&snap.name) == name)
}

/// Checks that the snapshot that the receiver has of a dataset is older than the last snapshot that
/// is sent.
fn check_earlier(dataset: &str, from: Option<&Snap>, how: &Gathering, to_txg: u64) -> Result<(), Failure> {
    let Some(from) = from.filter(|from| from.txg >= to_txg) else { return Ok(()) };
    let to = how.tosnap.as_deref().unwrap_or_default();
    let line = format!("WARNING: could not send {dataset}@{to}:");
    let reason = format!("incremental source ({dataset}@{}) is not earlier than it", from.name);
    Err(Failure::new(FailureKind::Invalid, line).and(reason))
}

/// The txg of the snapshot that is sent last of a dataset: zero where it is not said which; `None` when the dataset is
/// left out.
///
/// # Errors
/// When it should be there.
async fn to_txg(
    held: &Held,
    root: &str,
    dataset: &DatasetName,
    snaps: &[Snap],
    how: &Gathering,
    above: u64,
    gathered: &mut Gathered,
) -> Result<Option<u64>, Failure> {
    let Some(to) = &how.tosnap else { return Ok(Some(0)) };
    if let Some(snap) = named(snaps, Some(to)) {
        return Ok(Some(snap.txg));
    }
    let name = &dataset.name;
    let made = held.pool.dsl().dataset(dataset.dataset).await;
    let made = made.map_err(|error| refusal::pool("open", name, &error.into()))?.creation_txg.get();
    if above != 0 && made > above {
        return Ok(None);
    }
    if how.skip_missing {
        gathered.skipped.push(name.clone());
        return Ok(None);
    }
    let recursively = if how.recursive { " recursively" } else { "" };
    let line = format!("cannot send {root}@{to}{recursively}: snapshot {name}@{to} does not exist");
    let broken = format!("warning: cannot send '{root}@{to}': backup failed");
    Err(Failure::new(FailureKind::NoSuchDataset, line).and(broken))
}

/// Properties that a receiver can have, too.
fn list_of(props: Vec<Property>) -> NvList {
    let mut list = NvList::new();
    for Property { name, value, .. } in props {
        let access = dataset_prop(&name).map(|def| def.access);
        if !is_user_prop(&name) && !matches!(access, Some(Access::Set | Access::Inherit)) {
            continue;
        }
        match value {
            PropValue::Number(number) => list.add_u64(&name, number),
            PropValue::Text(text) => list.add_str(&name, text),
        };
    }
    list
}

/// The snapshot that a dataset is a clone of, if it is one: its guid, its full name.
async fn origin_of(held: &Held, dataset: &DatasetName) -> Result<Option<(u64, String)>, DslError> {
    let dsl = held.pool.dsl();
    match dsl.origin_name(&dsl.dir(dataset.dir).await?, &held.pool.name()).await? {
        Some(name) => {
            let guid = dsl.dataset(dsl.resolve(&name).await?.dataset).await?.guid.get();
            Ok(Some((guid, name)))
        }
        None => Ok(None),
    }
}
