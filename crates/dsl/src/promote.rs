//! Promoting a clone: it and the dataset that it came from change places.
//!
//! ```text
//!  before:  A ◄─ S ◄─ B ◄─ fs          after:  A ◄─ S ◄─ C ◄─ clone     A, S and their bookmarks are the clone's
//!                └◄─ C ◄─ clone                     └◄─ B ◄─ fs         fs is a clone of S
//! ```
//! No block moves; what changes is which of the two dirs the shared snapshots lie in, and is charged for them.
//!
//! Invariant: both dirs together use what they used before (test: `snapshots_and_clones_account_for_every_block`).

use std::sync::Arc;
use std::time::Duration;

use dmu::{SpaceDelta, Tx};
use env::boxed;
use ondisk::ObjectType;
use ondisk::dsl::{dataset_flags, used};
use units::ObjectId;
use zerocopy::little_endian::U64;

use crate::counts::Counted;
use crate::dataset::Dataset;
use crate::names::NAME_BYTES_MAX;
use crate::space::available::{PoolSpace, below};
use crate::space::signed;
use crate::{DatasetName, Dsl, DslError};

/// More snapshots than that in a row are a circle.
const SNAPSHOTS_MAX: usize = 1 << 24;

/// Who changes places, latest first in each list.
struct Family {
    clone: Arc<Dataset>,
    origin: Arc<Dataset>,
    origin_head: Arc<Dataset>,
    /// The clone and its own snapshots.
    of_clone: Vec<Arc<Dataset>>,
    /// The other head and its snapshots since the origin.
    of_origin: Vec<Arc<Dataset>>,
    /// The origin and snapshots before it, which move.
    shared: Vec<Arc<Dataset>>,
}

/// Space that changes hands.
struct Transfer {
    all: SpaceDelta,
    /// What the clone's dir will use for snapshots.
    snap_of_clone: i64,
    /// What the other dir will.
    snap_of_origin: i64,
    /// What is the origin's alone.
    unique: i64,
}

impl Dsl {
    /// Says whether a clone can be promoted.
    ///
    /// # Errors
    /// [`DslError::NotClone`]; [`DslError::Exists`] when snapshots or bookmarks of both have the same name;
    /// [`DslError::BadName`] when a name would be too long; [`DslError::NoSpace`]; those of reading the MOS.
    #[boxed]
    pub async fn check_promote(&self, name: &DatasetName, pool: &PoolSpace) -> Result<(), DslError> {
        let family = self.family(name).await?;
        let theirs = self.snapshot_names_of(&family.clone).await?;
        let moving = self.snapshot_names_of(&family.origin_head).await?;
        let is_shared = |object| family.shared.iter().any(|snapshot| snapshot.object() == object);
        for (snapshot, _) in moving.iter().filter(|(_, object)| is_shared(*object)) {
            let new = format!("{}@{snapshot}", name.name);
            if theirs.iter().any(|(own, _)| own == snapshot) {
                return Err(DslError::Exists { name: new });
            }
            if new.len() > NAME_BYTES_MAX {
                return Err(DslError::BadName { name: new, why: "too long" });
            }
        }
        let until = family.origin.phys().creation_txg.get();
        let own = self.bookmark_list(&family.clone).await?;
        for mark in self.bookmark_list(&family.origin_head).await?.iter().filter(|mark| mark.made() <= until)
        {
            if own.iter().any(|other| other.name() == mark.name()) {
                return Err(DslError::Exists { name: format!("{}#{}", name.name, mark.name()) });
            }
        }
        let more = u64::try_from(self.transfer(&family).await?.all.used).unwrap_or(0);
        let (from, to) = (family.origin_head.dir(), family.clone.dir());
        let shared = from.ancestry().find(|dir| to.ancestry().any(|other| other.object() == dir.object()));
        let freed = |dir: &crate::dir::Dir| match &shared {
            Some(shared) if shared.object() == dir.object() => more,
            _ => 0,
        };
        match below(to, pool, &freed) < more {
            true => Err(DslError::NoSpace { name: name.name.clone() }),
            false => Ok(()),
        }
    }

    async fn snapshot_names_of(&self, head: &Dataset) -> Result<Vec<(String, ObjectId)>, DslError> {
        crate::tree::named_objects(&self.zap(head.phys().snapshot_names.get()).await?).await
    }

    /// Promotes a clone that [`Dsl::check_promote`] approves of.
    ///
    /// # Errors
    /// Those of changing the MOS.
    #[boxed]
    pub async fn promote(&self, tx: &Tx, name: &DatasetName, now: Duration) -> Result<(), DslError> {
        let family = self.family(name).await?;
        let transfer = self.transfer(&family).await?;
        let (dir, other) = (family.clone.dir(), family.origin_head.dir());
        self.drop_livelist(tx, dir).await?;
        self.drop_livelist(tx, other).await?;
        self.exchange_followers(tx, &family).await?;
        self.exchange_clones(tx, &family).await?;
        let until = family.origin.phys().creation_txg.get();
        self.move_bookmarks(tx, &family.origin_head, &family.clone, until).await?;
        self.bookmarks_follow(tx, &family.clone, &family.origin).await?;
        self.move_snapshots(tx, &family).await?;
        for head in [&family.clone, &family.origin_head] {
            self.note_snapshots_changed(tx, head, now).await?;
        }
        for (dir, snap, sign) in [(dir, transfer.snap_of_clone, 1), (other, transfer.snap_of_origin, -1)] {
            let more = snap - signed(dir.phys().used_breakdown[used::SNAP]);
            let all = if sign > 0 { transfer.all } else { transfer.all.negated() };
            dir.use_space(tx, used::SNAP, SpaceDelta { used: more, ..SpaceDelta::default() })?;
            dir.use_space(tx, used::HEAD, SpaceDelta { used: all.used - more, ..all })?;
        }
        self.loaded_dataset(family.origin.object()).await?.change(tx, |phys| {
            phys.unique_bytes = U64::new(transfer.unique.max(0) as u64);
        })
    }

    /// Who changes places when a clone is promoted.
    async fn family(&self, name: &DatasetName) -> Result<Family, DslError> {
        let not_clone = || DslError::NotClone { name: name.name.clone() };
        let clone = self.loaded_dataset(name.dataset).await?;
        let origin = clone.dir().phys().origin.get();
        let forbidden = clone.phys().flags.get() & dataset_flags::NOPROMOTE != 0;
        if origin == 0 || origin == self.origin().await?.object().get() || forbidden {
            return Err(not_clone());
        }
        let origin = self.loaded_dataset(ObjectId::new(origin)).await?;
        let head = ObjectId::new(origin.dir().phys().head_dataset.get());
        let origin_head = self.loaded_dataset(head).await?;
        let beyond = origin.dir().phys().origin.get();
        Ok(Family {
            of_clone: self.back_to(&clone, origin.object().get()).await?,
            of_origin: self.back_to(&origin_head, origin.object().get()).await?,
            shared: self.back_to(&origin, beyond).await?,
            clone,
            origin,
            origin_head,
        })
    }

    /// A dataset and the snapshots before it, down to one that is not among them.
    async fn back_to(&self, from: &Arc<Dataset>, end: u64) -> Result<Vec<Arc<Dataset>>, DslError> {
        let mut chain = vec![Arc::clone(from)];
        loop {
            let before = chain[chain.len() - 1].phys().prev_snapshot.get();
            if before == end {
                return Ok(chain);
            }
            if before == 0 || chain.len() > SNAPSHOTS_MAX {
                return Err(DslError::damaged(from.object(), "snapshots that do not lead to an origin"));
            }
            chain.push(self.loaded_dataset(ObjectId::new(before)).await?);
        }
    }

    async fn transfer(&self, family: &Family) -> Result<Transfer, DslError> {
        let origin = family.origin.phys();
        let mut all = family.origin.referenced();
        for snapshot in &family.shared {
            all += self.deadlist_total(ObjectId::new(snapshot.phys().deadlist.get())).await?;
        }
        if let Some(beyond) = self.before(&family.shared[family.shared.len() - 1]).await? {
            all += beyond.referenced().negated();
        }
        let since = self.origin_txg(&family.origin_head).await?.get();
        let moved = self.let_go_since(&family.shared, since).await?;
        let first = family.of_clone[family.of_clone.len() - 1].phys().deadlist.get();
        let alone = origin.prev_snapshot_txg.get()..u64::MAX;
        Ok(Transfer {
            all,
            snap_of_clone: moved + self.let_go_since(&family.of_clone, since).await?,
            snap_of_origin: self.let_go_since(&family.of_origin, origin.creation_txg.get()).await?,
            unique: self.deadlist_space(ObjectId::new(first), alone).await?.used,
        })
    }

    /// What datasets let go of what was born after a txg.
    async fn let_go_since(&self, chain: &[Arc<Dataset>], since: u64) -> Result<i64, DslError> {
        let mut bytes = 0_i64;
        for dataset in chain {
            let deadlist = ObjectId::new(dataset.phys().deadlist.get());
            bytes += self.deadlist_space(deadlist, since..u64::MAX).await?.used;
        }
        Ok(bytes)
    }

    /// What followed the origin as a clone follows it as its next, and the other way round.
    async fn exchange_followers(&self, tx: &Tx, family: &Family) -> Result<(), DslError> {
        let old = family.origin.phys().next_snapshot.get();
        let new = family.of_clone[family.of_clone.len() - 1].object();
        let clones = family.origin.phys().next_clones.get();
        if clones != 0 {
            self.remove_from_clones(tx, clones, new).await?;
            self.add_to_clones(tx, clones, ObjectType::NEXT_CLONES, ObjectId::new(old)).await?;
        }
        family.origin.change(tx, |phys| phys.next_snapshot = U64::new(new.get()))
    }

    /// Dirs know where they began, and who began in them.
    async fn exchange_clones(&self, tx: &Tx, family: &Family) -> Result<(), DslError> {
        let (dir, other) = (family.clone.dir(), family.origin_head.dir());
        let beyond = other.phys().origin;
        dir.change(tx, |phys| phys.origin = beyond)?;
        other.change(tx, |phys| phys.origin = U64::new(family.origin.object().get()))?;
        self.remove_from_clones(tx, other.phys().clones.get(), family.clone.object()).await?;
        if beyond.get() != 0 {
            let beyond = self.loaded_dataset(ObjectId::new(beyond.get())).await?;
            let clones = beyond.dir().phys().clones.get();
            self.remove_from_clones(tx, clones, family.origin_head.object()).await?;
            self.add_to_clones(tx, clones, ObjectType::DSL_CLONES, family.clone.object()).await?;
        }
        self.add_clone_to_dir(tx, dir, family.origin_head.object()).await
    }

    /// Shared snapshots lie in the clone's dir from now on, and with them what began from them.
    async fn move_snapshots(&self, tx: &Tx, family: &Family) -> Result<(), DslError> {
        let (dir, other) = (family.clone.dir(), family.origin_head.dir());
        let from = self.zap(family.origin_head.phys().snapshot_names.get()).await?;
        let to = self.zap(family.clone.phys().snapshot_names.get()).await?;
        let names = crate::tree::named_objects(&from).await?;
        let moved = family.shared.len() as i64;
        self.count(tx, other, Counted::Snapshots, -moved).await?;
        self.count(tx, dir, Counted::Snapshots, moved).await?;
        for snapshot in &family.shared {
            let object = snapshot.object();
            let nameless = DslError::damaged(object, "snapshot without a name");
            let (name, _) = names.iter().find(|(_, named)| *named == object).ok_or(nameless)?;
            from.remove(tx, name.as_bytes()).await?;
            to.add_u64(tx, name.as_bytes(), object.get()).await?;
            snapshot.change(tx, |phys| phys.dir = U64::new(dir.object().get()))?;
            self.forget_dataset(object);
            for follower in self.clones_on(snapshot.phys().next_clones.get()).await? {
                let head = self.loaded_dataset(follower).await?.dir().phys().head_dataset.get();
                let head = ObjectId::new(head);
                if head != family.origin_head.object() {
                    self.remove_from_clones(tx, other.phys().clones.get(), head).await?;
                    self.add_clone_to_dir(tx, dir, head).await?;
                }
            }
        }
        Ok(())
    }
}
