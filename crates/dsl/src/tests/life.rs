//! Random lives of datasets against a plain model: which blocks each one has.

use std::collections::{BTreeMap, BTreeSet};

use dmu::SpaceDelta;
use ondisk::dsl::{dataset_flags, used};
use ondisk::{Blkptr, BlkptrParts, Dva, ObjectType};
use proptest::prelude::*;
use proptest::sample::Index;
use units::{Asize, Lsize, ObjectId, Psize, Txg, VdevId, VdevOffset};

use super::world::{NOW, World, birth};
use crate::dataset::livelist::sublist::live;
use crate::features::{FILESYSTEM_LIMITS, LIVELIST};
use crate::{Birth, Bpobj, Counted, DatasetName, DslError, PoolSpace, PropValue};

const POOL: PoolSpace = PoolSpace { usable_bytes: 1 << 40 };

#[derive(Clone, Debug)]
enum Op {
    Write { head: Index, births: usize, kills: usize },
    Snapshot { head: Index },
    DestroySnapshot { snapshot: Index, later: bool },
    Clone { snapshot: Index },
    Promote { head: Index },
    RollBack { head: Index },
    Reserve { head: Index, bytes: u64 },
    Exchange { head: Index, births: usize, kills: usize },
    DestroyHead { head: Index },
    Bookmark { snapshot: Index },
    DestroyBookmark { bookmark: Index },
    Hold { snapshot: Index },
    Release { snapshot: Index },
    Limit { head: Index, snapshots: bool },
    Move { head: Index, to: Index },
}

fn op() -> impl Strategy<Value = Op> {
    let index = any::<Index>;
    prop_oneof![
        8 => (index(), 0..5_usize, 0..4_usize).prop_map(|(head, births, kills)| Op::Write { head, births, kills }),
        5 => index().prop_map(|head| Op::Snapshot { head }),
        4 => (index(), any::<bool>()).prop_map(|(snapshot, later)| Op::DestroySnapshot { snapshot, later }),
        2 => index().prop_map(|snapshot| Op::Clone { snapshot }),
        2 => index().prop_map(|head| Op::Promote { head }),
        1 => index().prop_map(|head| Op::RollBack { head }),
        1 => (index(), 0..9000_u64).prop_map(|(head, bytes)| Op::Reserve { head, bytes }),
        3 => (index(), 0..5_usize, 0..4_usize).prop_map(|(head, births, kills)| Op::Exchange { head, births, kills }),
        1 => index().prop_map(|head| Op::DestroyHead { head }),
        2 => index().prop_map(|snapshot| Op::Bookmark { snapshot }),
        1 => index().prop_map(|bookmark| Op::DestroyBookmark { bookmark }),
        1 => index().prop_map(|snapshot| Op::Hold { snapshot }),
        1 => index().prop_map(|snapshot| Op::Release { snapshot }),
        1 => (index(), any::<bool>()).prop_map(|(head, snapshots)| Op::Limit { head, snapshots }),
        2 => (index(), index()).prop_map(|(head, to)| Op::Move { head, to }),
    ]
}

/// Numbers of blocks.
type Blocks = BTreeSet<u64>;

/// What a bookmark remembers.
#[derive(Clone)]
struct Mark {
    blocks: Blocks,
    made: u64,
    /// Whose line it is in: guids of the snapshots up to it.
    guid: u64,
}

struct Life {
    world: World,
    /// When each block was born.
    born: Vec<u64>,
    /// What each dataset has, by its object.
    has: BTreeMap<ObjectId, Blocks>,
    /// What trees that are to be freed have, by the number of the block that stands for their root.
    roots: BTreeMap<u64, Blocks>,
    freed: Blocks,
    /// Bookmarks, by what follows the `#`: each is called otherwise.
    marks: BTreeMap<String, Mark>,
    made: u64,
}

/// Space of a block: different for each, so that none is taken for another.
fn bytes(block: u64) -> u64 {
    512 * (1 + block % 7)
}

fn sum<'a>(blocks: impl IntoIterator<Item = &'a u64>) -> u64 {
    blocks.into_iter().map(|block| bytes(*block)).sum()
}

pub(crate) fn bp(block: u64, born: u64) -> Blkptr {
    let dva = Dva {
        vdev: VdevId::new(0),
        offset: VdevOffset::new((1 << 20) + block * 8192),
        asize: Asize::new(bytes(block)),
        gang: false,
    };
    BlkptrParts {
        dvas: [dva, Dva::EMPTY, Dva::EMPTY],
        lsize: Lsize::new(8192),
        psize: Psize::new(bytes(block)),
        object_type: ObjectType::PLAIN_FILE_CONTENTS,
        birth: Txg::new(born),
        physical_birth: Txg::new(born),
        ..BlkptrParts::default()
    }
    .to_blkptr()
}

/// What follows the `#` in a bookmark's name.
fn short(bookmark: &str) -> &str {
    bookmark.split('#').nth(1).expect("a bookmark's name")
}

fn block_of(bp: &Blkptr) -> u64 {
    let dva = bp.dvas().next().expect("no hole");
    (dva.offset.get() - (1 << 20)) / 8192
}

impl Life {
    fn new() -> Self {
        Self {
            world: World::new(),
            born: Vec::new(),
            has: BTreeMap::new(),
            roots: BTreeMap::new(),
            freed: Blocks::new(),
            marks: BTreeMap::new(),
            made: 0,
        }
    }

    fn birth(&mut self) -> Birth {
        self.made += 1;
        birth(1000 + self.made)
    }

    fn space(&self, blocks: &[Blkptr]) -> SpaceDelta {
        let mut space = SpaceDelta::default();
        blocks.iter().for_each(|bp| space.add(self.world.dsl.mos().zio(), bp));
        space
    }

    fn bps(&self, blocks: &Blocks) -> Vec<Blkptr> {
        blocks.iter().map(|block| bp(*block, self.born[*block as usize])).collect()
    }

    async fn heads(&self) -> Vec<DatasetName> {
        self.world.dsl.list("tank").await.unwrap()
    }

    async fn snapshots(&self) -> Vec<DatasetName> {
        let mut all = Vec::new();
        for head in self.heads().await {
            all.extend(self.world.dsl.snapshots(&head).await.unwrap());
        }
        all
    }

    async fn apply(&mut self, op: Op) {
        let (heads, snapshots) = (self.heads().await, self.snapshots().await);
        match op {
            Op::Write { head, births, kills } => self.write(head.get(&heads), births, kills).await,
            Op::Snapshot { head } => self.snapshot(head.get(&heads)).await,
            Op::DestroyHead { head } => self.destroy_head(head.get(&heads)).await,
            Op::Promote { head } => self.promote(head.get(&heads)).await,
            Op::RollBack { head } => self.roll_back(head.get(&heads)).await,
            Op::Reserve { head, bytes } => {
                let (dir, value) = (head.get(&heads).dir, PropValue::Number(bytes));
                let name = if bytes % 3 == 0 { "reservation" } else { "refreservation" };
                self.world.dsl.set_prop(&self.world.tx(), dir, name, &value).await.unwrap();
            }
            Op::Exchange { head, births, kills } => self.exchange(head.get(&heads), births, kills).await,
            Op::Limit { head, snapshots } => {
                let what = if snapshots { Counted::Snapshots } else { Counted::Filesystems };
                let (dsl, tx) = (&self.world.dsl, self.world.tx());
                dsl.enable_feature(&tx, &FILESYSTEM_LIMITS).await.unwrap();
                dsl.set_prop(&tx, head.get(&heads).dir, what.limit(), &PropValue::Number(3)).await.unwrap();
            }
            Op::Move { head, to } => self.rename(head.get(&heads), to.get(&heads)).await,
            Op::DestroyBookmark { bookmark } => self.destroy_bookmark(&bookmark).await,
            _ if snapshots.is_empty() => {}
            Op::DestroySnapshot { snapshot, later } => {
                self.destroy_snapshot(snapshot.get(&snapshots), later).await;
            }
            Op::Clone { snapshot } => self.clone_of(snapshot.get(&snapshots)).await,
            Op::Bookmark { snapshot } => self.bookmark(snapshot.get(&snapshots)).await,
            Op::Hold { snapshot } => self.hold(snapshot.get(&snapshots)).await,
            Op::Release { snapshot } => self.release(snapshot.get(&snapshots)).await,
        }
        self.world.sync().await;
    }

    async fn write(&mut self, head: &DatasetName, births: usize, kills: usize) {
        let has = self.blocks(head.dataset.get());
        self.overwrite(head, births, has.into_iter().step_by(3).take(kills).collect()).await;
    }

    async fn overwrite(&mut self, head: &DatasetName, births: usize, killed: Blocks) {
        let tx = self.world.tx();
        let has = self.has.entry(head.dataset).or_default();
        has.retain(|block| !killed.contains(block));
        let first = self.born.len() as u64;
        self.born.extend(std::iter::repeat_n(tx.txg().get(), births + 1));
        // The first of the new blocks stands for the root, and is nobody's.
        let new: Blocks = (first + 1..first + 1 + births as u64).collect();
        has.extend(&new);
        self.freed.insert(first);
        let (root, killed) = (bp(first, tx.txg().get()), self.bps(&killed));
        let mut delta = self.space(&self.bps(&new));
        delta += self.space(&killed).negated();
        let births = Some(self.bps(&new));
        let freed = self.world.dsl.apply_sync(&tx, head.dataset, root, delta, killed, births).await.unwrap();
        self.free(&freed);
        self.roots.insert(first, self.has[&head.dataset].clone());
    }

    fn free(&mut self, blocks: &[Blkptr]) {
        for block in blocks.iter().map(block_of) {
            assert!(self.freed.insert(block), "block {block} is freed twice");
        }
    }

    async fn snapshot(&mut self, head: &DatasetName) {
        let (tx, birth) = (self.world.tx(), self.birth());
        let name = format!("s{}", self.made);
        let dsl = &self.world.dsl;
        dsl.check_snapshot(&tx, head, &name, &POOL).await.unwrap();
        let made = dsl.create_snapshot(&tx, head, &name, birth, NOW).await.unwrap();
        let again = dsl.check_snapshot(&tx, head, &format!("{name}b"), &POOL).await;
        assert!(matches!(again, Err(DslError::TryAgain { .. })), "{again:?}");
        self.has.insert(made.dataset, self.has.get(&head.dataset).cloned().unwrap_or_default());
    }

    async fn destroy_snapshot(&mut self, name: &DatasetName, later: bool) {
        let (tx, dsl) = (self.world.tx(), &self.world.dsl);
        let phys = dsl.dataset(name.dataset).await.unwrap();
        let held = !dsl.holds(name.dataset).await.unwrap().is_empty();
        match dsl.check_snapshot_removable(name, later).await {
            Ok(()) => {
                let gone = dsl.destroy_snapshot(&tx, name, NOW).await.unwrap();
                assert_eq!(gone, !held && phys.children.get() == 1);
            }
            Err(DslError::HasHolds { .. }) => assert!(held),
            Err(DslError::HasClones { .. }) => assert!(phys.children.get() > 1),
            Err(error) => panic!("{error}"),
        }
    }

    async fn clone_of(&mut self, origin: &DatasetName) {
        let (tx, birth) = (self.world.tx(), self.birth());
        let name = format!("tank/c{}", self.made);
        let made = self.world.dsl.clone_snapshot(&tx, origin, &name, birth).await.unwrap();
        self.world.dsl.begin_livelist(&tx, &made).await.unwrap();
        self.has.insert(made.dataset, self.has[&origin.dataset].clone());
    }

    async fn promote(&mut self, head: &DatasetName) {
        let (tx, dsl) = (self.world.tx(), &self.world.dsl);
        match dsl.check_promote(head, &POOL).await {
            Ok(()) => dsl.promote(&tx, head, NOW).await.unwrap(),
            Err(DslError::NotClone { .. } | DslError::Exists { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    async fn roll_back(&mut self, head: &DatasetName) {
        let (tx, dsl) = (self.world.tx(), &self.world.dsl);
        let to = ObjectId::new(dsl.dataset(head.dataset).await.unwrap().prev_snapshot.get());
        let target = DatasetName { name: format!("{}@?", head.name), dir: head.dir, dataset: to };
        match dsl.check_rollback(&tx, head, &target).await {
            Ok(()) => assert!(dsl.roll_back(&tx, head).await.unwrap().is_none()),
            Err(DslError::NotLatest { .. }) => return,
            Err(error) => panic!("{error}"),
        }
        self.has.insert(head.dataset, self.has.get(&to).cloned().unwrap_or_default());
    }

    async fn rename(&mut self, head: &DatasetName, to: &DatasetName) {
        let component = head.name.rsplit('/').next().unwrap();
        let name = format!("{}/{component}", to.name);
        match self.world.dsl.rename_dataset(&self.world.tx(), &head.name, &name, &POOL).await {
            Ok(_) | Err(DslError::NoRename { .. } | DslError::Exists { .. } | DslError::BadName { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// A clone of the head's latest snapshot is written to, takes the head's place, and goes with what that had.
    async fn exchange(&mut self, head: &DatasetName, births: usize, kills: usize) {
        let latest = self.world.dsl.dataset(head.dataset).await.unwrap().prev_snapshot.get();
        let mut own = self.world.dsl.snapshots(head).await.unwrap().into_iter();
        let Some(origin) = own.find(|snapshot| snapshot.dataset.get() == latest) else { return };
        let birth = self.birth();
        let name = format!("{}/%recv", head.name);
        let clone = self.world.dsl.clone_snapshot(&self.world.tx(), &origin, &name, birth).await.unwrap();
        self.has.insert(clone.dataset, self.has[&origin.dataset].clone());
        for _ in 0..2 {
            self.world.sync().await;
            self.write(&clone, births, kills).await;
        }
        self.world.sync().await;
        let (tx, dsl) = (self.world.tx(), &self.world.dsl);
        let received = self.has.remove(&clone.dataset).unwrap_or_default();
        match dsl.check_exchange(head, &clone).await {
            Ok(()) => {
                dsl.exchange(&tx, head, &clone).await.unwrap();
                self.has.insert(head.dataset, received);
            }
            Err(DslError::NotLatest { .. }) => {}
            Err(error) => panic!("{error}"),
        }
        dsl.remove_dataset(&tx, &clone, NOW).await.unwrap();
    }

    async fn destroy_head(&mut self, head: &DatasetName) {
        let (tx, dsl) = (self.world.tx(), &self.world.dsl);
        let marks = dsl.bookmarks(head).await.unwrap();
        match dsl.check_removable(head).await {
            Ok(()) => dsl.remove_dataset(&tx, head, NOW).await.unwrap(),
            Err(DslError::HasSnapshots { .. } | DslError::HasChildren { .. } | DslError::InUse { .. }) => {
                return;
            }
            Err(error) => panic!("{error}"),
        }
        marks.iter().for_each(|mark| drop(self.marks.remove(short(&mark.name))));
    }

    async fn bookmark(&mut self, of: &DatasetName) {
        let (tx, dsl) = (self.world.tx(), &self.world.dsl);
        self.made += 1;
        let name = format!("{}#b{}", of.name.split('@').next().unwrap(), self.made);
        dsl.check_bookmark(&of.name, &name).await.unwrap();
        dsl.create_bookmark(&tx, &of.name, &name).await.unwrap();
        let phys = dsl.dataset(of.dataset).await.unwrap();
        let (made, guid) = (phys.creation_txg.get(), phys.guid.get());
        self.marks
            .insert(short(&name).to_owned(), Mark { blocks: self.has[&of.dataset].clone(), made, guid });
    }

    async fn destroy_bookmark(&mut self, which: &Index) {
        let (tx, all) = (self.world.tx(), self.bookmarks().await);
        if all.is_empty() {
            return;
        }
        let name = which.get(&all);
        self.world.dsl.destroy_bookmark(&tx, name).await.unwrap();
        self.marks.remove(short(name));
    }

    /// Names of all bookmarks, as the pool has them.
    async fn bookmarks(&self) -> Vec<String> {
        let mut names = Vec::new();
        for head in self.heads().await {
            names.extend(self.world.dsl.bookmarks(&head).await.unwrap().into_iter().map(|mark| mark.name));
        }
        names
    }

    async fn hold(&mut self, of: &DatasetName) {
        if self.world.dsl.check_hold(of, "tag").await.is_ok() {
            self.world.dsl.hold(&self.world.tx(), of.dataset, "tag", NOW).await.unwrap();
            let again = self.world.dsl.check_hold(of, "tag").await;
            assert!(matches!(again, Err(DslError::TagExists { .. })), "{again:?}");
        }
    }

    async fn release(&mut self, of: &DatasetName) {
        if self.world.dsl.check_release(of, "tag").await.is_ok() {
            self.world.dsl.release(&self.world.tx(), of.dataset, "tag", NOW).await.unwrap();
        }
    }

    /// Frees all that waits for it.
    async fn free_all(&mut self) {
        loop {
            let listed = self.world.dsl.take_from_free_list(&self.world.tx(), 7).await.unwrap();
            if listed.is_empty() {
                break;
            }
            self.free(&listed);
        }
        loop {
            let of_clones = self.world.dsl.take_from_deleted_clones(&self.world.tx(), 2).await.unwrap();
            if of_clones.is_empty() {
                break;
            }
            self.free(&of_clones);
            self.world.sync().await;
        }
        while let Some(destroyed) = self.world.dsl.next_destroyed().await.unwrap() {
            let root =
                if destroyed.root.is_hole() { None } else { self.roots.get(&block_of(&destroyed.root)) };
            let all = root.cloned().unwrap_or_default();
            let is_later = |block: &&u64| self.born[**block as usize] > destroyed.born_after.get();
            let blocks: Blocks = all.iter().filter(is_later).copied().collect();
            let bps = self.bps(&blocks);
            self.free(&bps);
            self.world.dsl.note_freed(&self.world.tx(), self.space(&bps), None).await.unwrap();
        }
        assert_eq!(self.world.dsl.freeing_bytes().await.unwrap(), 0);
        self.world.sync().await;
    }

    async fn check(&self) {
        let dsl = &self.world.dsl;
        let mut referenced = Blocks::new();
        for head in self.heads().await {
            let snapshots = dsl.snapshots(&head).await.unwrap();
            let mut of_dir = Blocks::new();
            for dataset in std::iter::once(&head).chain(&snapshots) {
                of_dir.extend(self.check_dataset(dataset).await);
            }
            self.check_dir(&head, &of_dir).await;
            referenced.extend(of_dir);
        }
        self.check_bookmarks().await;
        self.check_counts().await;
        let all: Blocks = (0..self.born.len() as u64).collect();
        let freed: Blocks = all.difference(&referenced).copied().collect();
        assert_eq!(self.freed, freed, "what nobody has is freed, and nothing else");
        super::space::check_children(dsl, "tank", self.heads().await[0].dir).await;
    }

    /// Who counts knows what is below it, and whoever is below one that counts does so, too.
    async fn check_counts(&self) {
        let (dsl, heads) = (&self.world.dsl, self.heads().await);
        for head in &heads {
            let prefix = format!("{}/", head.name);
            let below: Vec<&DatasetName> = heads.iter().filter(|of| of.name.starts_with(&prefix)).collect();
            let mut snapshots = dsl.snapshots(head).await.unwrap().len() as u64;
            for of in &below {
                snapshots += dsl.snapshots(of).await.unwrap().len() as u64;
            }
            let found = [Counted::Filesystems, Counted::Snapshots].map(|what| dsl.counted(head.dir, what));
            let [filesystems_counted, snapshots_counted] = found;
            let counted = (filesystems_counted.await.unwrap(), snapshots_counted.await.unwrap());
            if counted != (None, None) {
                assert_eq!(counted, (Some(below.len() as u64), Some(snapshots)), "below {}", head.name);
                for of in below {
                    let counted = dsl.counted(of.dir, Counted::Filesystems).await.unwrap();
                    assert!(counted.is_some(), "{} is below {}", of.name, head.name);
                }
            }
        }
    }

    fn blocks(&self, object: u64) -> Blocks {
        self.has.get(&ObjectId::new(object)).cloned().unwrap_or_default()
    }

    /// Checks a dataset's figures against those before and after it, and gives its blocks.
    async fn check_dataset(&self, name: &DatasetName) -> Blocks {
        let dsl = &self.world.dsl;
        let phys = dsl.dataset(name.dataset).await.unwrap();
        let has = self.blocks(name.dataset.get());
        assert_eq!(phys.referenced_bytes.get(), sum(&has), "{} refers to", name.name);
        let before = self.blocks(phys.prev_snapshot.get());
        let let_go: Blocks = before.difference(&has).copied().collect();
        let deadlist = dsl.deadlist_total(ObjectId::new(phys.deadlist.get())).await.unwrap();
        assert_eq!(deadlist.used as u64, sum(&let_go), "{} let go", name.name);
        let is_own = |block: &&u64| self.born[**block as usize] > phys.prev_snapshot_txg.get();
        let own: Blocks = has.iter().filter(is_own).copied().collect();
        let next = self.blocks(phys.next_snapshot.get());
        let alone = if phys.is_snapshot() { sum(own.difference(&next)) } else { sum(&own) };
        assert_eq!(phys.unique_bytes.get(), alone, "{} has alone", name.name);
        if phys.flags.get() & dataset_flags::DEFER_DESTROY != 0 {
            let is_kept = phys.children.get() > 1 || !dsl.holds(name.dataset).await.unwrap().is_empty();
            assert!(is_kept, "nothing keeps {} any more", name.name);
        }
        let written = dsl.written(&phys).await.unwrap();
        assert_eq!(written, sum(&own), "{} wrote", name.name);
        has
    }

    async fn check_dir(&self, head: &DatasetName, of_dir: &Blocks) {
        let dsl = &self.world.dsl;
        let phys = dsl.dir(head.dir).await.unwrap();
        let since = match phys.origin.get() {
            0 => 0,
            origin => dsl.dataset(ObjectId::new(origin)).await.unwrap().creation_txg.get(),
        };
        let is_own = |block: &&u64| self.born[**block as usize] > since;
        let own: Blocks = of_dir.iter().filter(is_own).copied().collect();
        let has = self.blocks(head.dataset.get());
        let snap = sum(own.difference(&has));
        assert_eq!(phys.used_breakdown[used::SNAP].get(), snap, "snapshots of {} use", head.name);
        assert_eq!(phys.used_breakdown[used::HEAD].get(), sum(&own) - snap, "{} uses", head.name);
        let loaded = dsl.loaded_dataset(head.dataset).await.unwrap();
        let unused = loaded.refreservation().saturating_sub(loaded.phys().unique_bytes.get());
        assert_eq!(phys.used_breakdown[used::REFRESERVATION].get(), unused, "{} has reserved", head.name);
        if let Some(list) = dsl.livelist(loaded.dir()).await.unwrap() {
            let own: Blocks = has.iter().filter(is_own).copied().collect();
            assert_eq!(self.listed(list).await, own.iter().copied().collect::<Vec<u64>>(), "{}", head.name);
            let total = dsl.deadlist_total(list).await.unwrap();
            assert_eq!(total.used as u64, sum(&own), "the livelist of {}", head.name);
        }
    }

    /// What a livelist says is there.
    async fn listed(&self, list: ObjectId) -> Vec<u64> {
        let mut listed = Vec::new();
        for (_, sublist) in self.world.dsl.deadlist_keys(list).await.unwrap().iter() {
            let sublist = Bpobj::open(self.world.dsl.mos(), *sublist).await.unwrap();
            listed.extend(live(&sublist).await.unwrap().iter().map(block_of));
        }
        listed.sort_unstable();
        listed
    }

    /// Bookmarks know what their snapshots had that the next dataset in line has not.
    async fn check_bookmarks(&self) {
        let dsl = &self.world.dsl;
        let mut found = 0;
        for head in self.heads().await {
            let marks = dsl.bookmark_list(&dsl.loaded_dataset(head.dataset).await.unwrap()).await.unwrap();
            for mark in marks {
                let (name, known) = (mark.name(), &self.marks[mark.name()]);
                let next = self.first_after(&head, known).await;
                let gone = sum(known.blocks.difference(&self.blocks(next.get())));
                assert!(mark.counts(), "{name}");
                assert_eq!(mark.freed_bytes(), gone, "freed since {name}");
                let phys = dsl.dataset(head.dataset).await.unwrap();
                let full = format!("{}#{name}", head.name);
                let written = dsl.written_since_bookmark(&phys, &full).await.unwrap();
                let newer = sum(self.blocks(head.dataset.get()).difference(&known.blocks));
                assert_eq!(written, Some(newer), "written since {full}");
                found += 1;
            }
        }
        assert_eq!(found, self.marks.len(), "bookmarks stay until they are destroyed");
    }

    /// The dataset that comes first after a bookmark, in the line of its head.
    async fn first_after(&self, head: &DatasetName, mark: &Mark) -> ObjectId {
        let dsl = &self.world.dsl;
        let mut at = head.dataset;
        loop {
            let before = ObjectId::new(dsl.dataset(at).await.unwrap().prev_snapshot.get());
            if before.get() == 0 {
                return at;
            }
            let phys = dsl.dataset(before).await.unwrap();
            if phys.creation_txg.get() <= mark.made {
                let is_it = phys.guid.get() == mark.guid;
                return if is_it { ObjectId::new(phys.next_snapshot.get()) } else { at };
            }
            at = before;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn snapshots_and_clones_account_for_every_block(ops in proptest::collection::vec(op(), 1..90)) {
        let mut life = Life::new();
        let env = std::sync::Arc::clone(&life.world.env);
        env.block_on(async {
            life.world.create("tank/a").await;
            life.world.sync().await;
            for op in ops {
                life.apply(op).await;
                life.free_all().await;
                life.check().await;
            }
        });
    }
}

/// Head, snapshot and clone of it, the clone with a livelist.
async fn with_clone(life: &mut Life) -> DatasetName {
    let head = life.world.create("tank/a").await;
    life.write(&head, 40, 0).await;
    life.world.sync().await;
    life.snapshot(&head).await;
    life.world.sync().await;
    let snapshots = life.snapshots().await;
    life.clone_of(&snapshots[0]).await;
    life.world.sync().await;
    life.heads().await.into_iter().find(|head| head.name.starts_with("tank/c")).expect("the clone")
}

#[test]
fn a_livelist_has_what_a_clone_has_of_its_own() {
    let mut life = Life::new();
    let env = std::sync::Arc::clone(&life.world.env);
    env.block_on(async {
        let clone = with_clone(&mut life).await;
        let dir = life.world.dsl.loaded_dir(clone.dir).await.unwrap();
        let list = life.world.dsl.livelist(&dir).await.unwrap().expect("it has one");
        let first_own = life.born.len() as u64;
        for round in 0..30 {
            // What is new is written over soon, and a block of the origin's now and then.
            let has = life.blocks(clone.dataset.get());
            let own = has.range(first_own..).copied().step_by(2).take(3);
            let killed = own.chain(has.iter().copied().take(usize::from(round % 10 == 0))).collect();
            life.overwrite(&clone, 3, killed).await;
            life.world.sync().await;
            life.check().await;
        }
        let (mut entries, mut frees) = (0, 0);
        let keys = life.world.dsl.deadlist_keys(list).await.unwrap();
        for (_, sublist) in keys.iter() {
            let (all, freed) = Bpobj::open(life.world.dsl.mos(), *sublist).await.unwrap().listed();
            (entries, frees) = (entries + all, frees + freed);
        }
        assert!(keys.len() > 2 && frees > 0, "{} sublists, {frees} of {entries} entries freed", keys.len());
        assert!(entries < 90 + 60, "{entries} entries: sublists were made one");
    });
}

#[test]
fn a_destroyed_clone_is_freed_by_its_livelist_and_leaves_nothing() {
    let mut life = Life::new();
    let env = std::sync::Arc::clone(&life.world.env);
    env.block_on(async {
        let clone = with_clone(&mut life).await;
        for _ in 0..6 {
            let has = life.blocks(clone.dataset.get());
            let killed = has.iter().rev().copied().take(2).collect();
            life.overwrite(&clone, 5, killed).await;
            life.world.sync().await;
        }
        let own = sum(life.blocks(clone.dataset.get()).iter().filter(|block| **block > 40));
        life.destroy_head(&clone).await;
        life.world.sync().await;
        let dsl = &life.world.dsl;
        assert!(dsl.has_destroyed().await.unwrap() && dsl.next_destroyed().await.unwrap().is_none());
        assert_eq!(dsl.freeing_bytes().await.unwrap(), own, "what is not freed yet is known");
        // What is on disk amid that is as good as what is in memory.
        let some = dsl.take_from_deleted_clones(&life.world.tx(), 3).await.unwrap();
        assert_eq!(some.len(), 3);
        life.free(&some);
        life.world.dsl = life.world.reopened().await;
        life.free_all().await;
        life.check().await;
        let dsl = &life.world.dsl;
        assert!(!dsl.has_destroyed().await.unwrap());
        assert_eq!(dsl.feature_count(&LIVELIST).await.unwrap(), Some(0));
    });
}
