//! Random damage. Every file is rescued except its lost ranges, and the report lists exactly these
//! ranges.
//!
//! The expected losses are computed from the undamaged images by another reader (`oracle::image`),
//! which knows the damaged places. The contents and paths of the files are those that an import of
//! the undamaged pool reads.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use device::{Options, RealEnv};
use env::Env;
use fastrand::Rng;
use ondisk::dnode::dnodes_of_block;
use ondisk::{Blkptr, DnodeImage, ObjectType, ObjsetPhys};
use oracle::golden;
use oracle::image::Image;
use pool::{ImportSpec, Pool, Tuning};
use units::{LABEL_START_BYTES, ObjectId};
use zpl::FileKind;

use crate::world::World;

type Place = (u32, u64);

fn place_of(dva: &ondisk::Dva) -> Place {
    (dva.vdev.get(), dva.offset.get())
}

/// A dataset of the undamaged pool.
struct KnownDataset {
    name: String,
    object: u64,
    root: Blkptr,
    files: Vec<KnownFile>,
}

/// A file of the undamaged pool.
struct KnownFile {
    object: u64,
    path: PathBuf,
    /// The object and the path of each parent directory, root first, and of the file itself.
    above: Vec<(u64, PathBuf)>,
    links: u32,
    bytes: Vec<u8>,
}

/// Reads all files of all datasets with an import.
fn known(name: &str) -> Vec<KnownDataset> {
    let env = RealEnv::new(Options::default());
    let spec =
        ImportSpec { paths: golden::images(name), read_only: true, force: true, ..ImportSpec::default() };
    let shared: Arc<dyn Env> = env.clone();
    env.block_on(async {
        let pool = Pool::import(shared, &spec, Tuning { cache_bytes: 64 << 20, ..Tuning::default() });
        let pool = pool.await.expect("a golden pool");
        let mut all = Vec::new();
        for head in pool.dsl().list(&pool.name()).await.expect("listed") {
            let snapshots = pool.dsl().snapshots(&head).await.expect("listed");
            for dataset in std::iter::once(head).chain(snapshots) {
                let phys = pool.dsl().dataset(dataset.dataset).await.expect("readable");
                let files = files_of(&pool, &dataset.name).await;
                let (name, object) = (dataset.name, dataset.dataset.get());
                all.push(KnownDataset { name, object, root: phys.bp, files });
            }
        }
        all
    })
}

async fn files_of(pool: &Arc<Pool>, name: &str) -> Vec<KnownFile> {
    let opened = match name.contains('@') {
        true => pool.snapshot_filesystem(name).await,
        false => pool.filesystem(name).await,
    };
    // A volume has no files.
    let Ok(fs) = opened else { return Vec::new() };
    let mut files = Vec::new();
    let mut todo = vec![(fs.zfs.root(), PathBuf::new(), Vec::new())];
    while let Some((object, path, above)) = todo.pop() {
        let at = fs.zfs.attributes(object).await.expect("readable");
        let above: Vec<_> = above.into_iter().chain([(object.get(), path.clone())]).collect();
        match at.kind {
            FileKind::Directory => {
                for entry in fs.zfs.list(object, 0, usize::MAX).await.expect("listed") {
                    if entry.name != b"." && entry.name != b".." {
                        let name = OsStr::from_bytes(&entry.name);
                        todo.push((entry.object, path.join(name), above.clone()));
                    }
                }
            }
            FileKind::File if at.size < 64 << 20 => {
                let mut bytes = vec![0; usize::try_from(at.size).expect("small")];
                let mut done = 0;
                while done < bytes.len() {
                    done += fs.zfs.read(object, done as u64, &mut bytes[done..]).await.expect("readable");
                }
                files.push(KnownFile { object: object.get(), path, above, links: at.links, bytes });
            }
            _ => {}
        }
    }
    files
}

/// The blocks that may be damaged.
#[derive(Clone, Copy)]
enum Target {
    /// Any block, in any of its copies.
    Places,
    /// Blocks of files and directories, in all of their copies.
    Blocks,
}

/// All blocks of a pool, with their owners.
struct Blocks {
    image: Image,
    all: Vec<(Blkptr, bool)>,
}

impl Blocks {
    fn of(name: &str, datasets: &[KnownDataset]) -> Self {
        let image = Image::open(&golden::images(name)).expect("one device");
        let mut blocks = Self { all: Vec::new(), image };
        let mos = blocks.image.uberblock.rootbp;
        blocks.objset(&mos, false);
        datasets.iter().for_each(|dataset| blocks.objset(&dataset.root, true));
        let mut seen = BTreeSet::new();
        blocks.all.retain(|(bp, _)| seen.insert(place_of(&bp.dva(0))));
        blocks
    }

    fn objset(&mut self, root: &Blkptr, is_dataset: bool) {
        self.all.push((*root, false));
        let Ok(block) = self.image.read(root) else { return };
        let objset = ObjsetPhys::decode(&block).expect("OpenZFS wrote it");
        let meta = ObjsetPhys::dnode(&objset.meta_dnode).expect("a dnode").expect("allocated");
        if is_dataset {
            // Blocks of dnodes may be damaged, except the first two, which have the attribute
            // tables. These come before the rest of the tree, because the first mention of a block
            // counts.
            let all = &mut self.all;
            self.image.blocks(&meta, &mut |index, bp| all.extend((index > 1).then_some((*bp, true))));
        }
        self.tree(&meta, false);
        for (object, slots) in self.image.objects(root) {
            let dnode = DnodeImage::decode(&slots).expect("OpenZFS wrote it");
            let is_file = [ObjectType::PLAIN_FILE_CONTENTS, ObjectType::DIRECTORY_CONTENTS]
                .contains(&dnode.object_type);
            self.tree(&dnode, is_dataset && is_file && object > 1);
        }
    }

    fn tree(&mut self, dnode: &DnodeImage, may_go: bool) {
        let mut todo: Vec<Blkptr> = dnode.blkptrs.clone();
        while let Some(bp) = todo.pop() {
            if bp.is_hole() || bp.is_embedded() {
                continue;
            }
            self.all.push((bp, may_go));
            if bp.level().get() > 0
                && let Ok(block) = self.image.read(&bp)
            {
                todo.extend(ondisk::bpobj::entries(&block));
            }
        }
    }

    /// Damages one block in `one_in` and returns the damaged places.
    fn damage(&self, path: &Path, what: Target, one_in: usize, dice: &mut Rng) -> BTreeSet<Place> {
        let mut hit = BTreeSet::new();
        for (bp, may_go) in &self.all {
            match what {
                Target::Places => {
                    hit.extend(bp.dvas().filter(|_| dice.usize(..one_in) == 0).map(|dva| place_of(&dva)))
                }
                Target::Blocks if *may_go && dice.usize(..one_in) == 0 => {
                    hit.extend(bp.dvas().map(|dva| place_of(&dva)))
                }
                Target::Blocks => {}
            }
        }
        let file = File::options().write(true).open(path).expect("the copy is ours");
        for (_, offset) in &hit {
            let mut noise = [0; 512];
            dice.fill(&mut noise);
            file.write_all_at(&noise, offset + LABEL_START_BYTES).expect("written");
        }
        hit
    }
}

/// The lost byte ranges of one object.
type Ranges = Vec<(u64, u64)>;

/// The expected losses of a dataset.
#[derive(Default)]
struct ExpectedLosses {
    /// Objects whose dnodes are lost.
    objects: BTreeSet<u64>,
    /// The lost byte ranges of the other objects, up to the end of their last block.
    ranges: BTreeMap<u64, Ranges>,
}

struct Judge<'a> {
    image: &'a Image,
    hit: &'a BTreeSet<Place>,
}

impl Judge<'_> {
    fn is_lost(&self, bp: &Blkptr) -> bool {
        !bp.is_embedded() && !bp.is_hole() && bp.dvas().all(|dva| self.hit.contains(&place_of(&dva)))
    }

    /// Returns `None` if the root itself is lost.
    fn losses(&self, root: &Blkptr) -> Option<ExpectedLosses> {
        if self.is_lost(root) {
            return None;
        }
        let block = self.image.read(root).ok()?;
        let objset = ObjsetPhys::decode(&block).expect("OpenZFS wrote it");
        let meta = ObjsetPhys::dnode(&objset.meta_dnode).expect("a dnode").expect("allocated");
        let mut losses = ExpectedLosses::default();
        let lost_blocks = self.lost_blocks(&meta);
        self.image.blocks(&meta, &mut |index, bp| {
            let Ok(block) = self.image.read(bp) else { return };
            let is_lost = lost_blocks.iter().any(|(start, end)| (*start..*end).contains(&index));
            for (slot, bytes) in dnodes_of_block(&block) {
                let object = index * 32 + slot as u64;
                if is_lost {
                    losses.objects.insert(object);
                    continue;
                }
                let dnode = DnodeImage::decode(bytes).expect("OpenZFS wrote it");
                let lost = self.lost_blocks(&dnode);
                if !lost.is_empty() {
                    let size = dnode.data_block_bytes();
                    losses.ranges.insert(object, lost.iter().map(|(a, b)| (a * size, b * size)).collect());
                }
            }
        });
        Some(losses)
    }

    /// Returns the data blocks that cannot be reached.
    fn lost_blocks(&self, dnode: &DnodeImage) -> Ranges {
        let mut lost = Vec::new();
        let end = dnode.max_block_id.get() + 1;
        let shift = u32::from(dnode.indirect_shift) - 7;
        let mut todo: Vec<(u8, u64, Blkptr)> =
            (0..).zip(&dnode.blkptrs).map(|(index, bp)| (dnode.levels - 1, index, *bp)).collect();
        while let Some((level, index, bp)) = todo.pop() {
            if self.is_lost(&bp) {
                let below = shift * u32::from(level);
                lost.push((index << below, ((index + 1) << below).min(end)));
            } else if level > 0 && !bp.is_hole() {
                let block = self.image.read(&bp).expect("indirect blocks are lz4");
                todo.extend(
                    (0..)
                        .zip(ondisk::bpobj::entries(&block))
                        .map(|(slot, bp)| (level - 1, (index << shift) + slot, bp)),
                );
            }
        }
        merged(lost)
    }
}

fn merged(mut ranges: Ranges) -> Ranges {
    ranges.sort_unstable();
    let mut out: Ranges = Vec::new();
    for (start, end) in ranges {
        match out.last_mut() {
            Some(last) if last.1 >= start => last.1 = last.1.max(end),
            _ => out.push((start, end)),
        }
    }
    out
}

/// Limits ranges to the size of a file.
fn clipped(ranges: Option<&Ranges>, size: u64) -> Ranges {
    let within = ranges.into_iter().flatten().map(|(start, end)| (*start.min(&size), *end.min(&size)));
    within.filter(|(start, end)| start < end).collect()
}

/// Returns the possible paths of a file: its own path, or a path below a directory whose name is
/// lost.
fn standing(target: &Path, dataset: &KnownDataset, file: &KnownFile) -> Vec<PathBuf> {
    let (head, snapshot) = dataset.name.split_once('@').unwrap_or((&dataset.name, ""));
    let named = target.join(head).join(format!("@{snapshot}")).join(&file.path);
    let nameless = file.above.iter().map(|(object, path)| {
        let top = target.join(format!("lost+found/{}/{object}", dataset.object));
        let below = file.path.strip_prefix(path).expect("a path above");
        if below.as_os_str().is_empty() { top } else { top.join(below) }
    });
    let all = std::iter::once(named).chain(nameless);
    all.filter(|place| std::fs::symlink_metadata(place).is_ok_and(|there| there.is_file())).collect()
}

/// Runs one round: damages, rescues, compares. Returns the number of damaged files, of lost files,
/// and of files without a name.
fn round(name: &str, what: Target, one_in: usize, seed: u64) -> [usize; 3] {
    let datasets = known(name);
    let blocks = Blocks::of(name, &datasets);
    let world = World::copy(name);
    let hit = blocks.damage(&world.search.devices[0], what, one_in, &mut Rng::with_seed(seed));
    assert!(!hit.is_empty(), "{name}, seed {seed}: nothing is damaged");
    world.rescue();
    let report = world.report();
    let judge = Judge { image: &blocks.image, hit: &hit };
    let mut counts = [0; 3];
    for dataset in &datasets {
        let Some(losses) = judge.losses(&dataset.root) else {
            assert!(report.iter().any(|line| line.what == "dataset" && line.dataset == dataset.name));
            continue;
        };
        let about = report.iter().filter(|line| line.dataset == dataset.name && line.what == "blocks");
        let told: BTreeMap<u64, Ranges> = about.map(|line| (line.object, line.lost.clone())).collect();
        let mut places: BTreeMap<u64, Vec<PathBuf>> = BTreeMap::new();
        for file in &dataset.files {
            places.entry(file.object).or_default().extend(standing(&world.target(), dataset, file));
        }
        for file in &dataset.files {
            let label =
                format!("{name}, seed {seed}, {}:{} ({})", dataset.name, file.path.display(), file.object);
            let found = &places[&file.object];
            if losses.objects.contains(&ObjectId::new(file.object).get()) {
                assert!(found.is_empty(), "{label}: its dnode is lost: {found:?}");
                counts[1] += 1;
                continue;
            }
            assert!(
                found.len() == 1 || (file.links > 1 && !found.is_empty()),
                "{label}: stands at {found:?}"
            );
            counts[2] += usize::from(found[0].starts_with(world.target().join("lost+found")));
            let size = file.bytes.len() as u64;
            let lost = clipped(losses.ranges.get(&file.object), size);
            counts[0] += usize::from(!lost.is_empty());
            let mut expected = file.bytes.clone();
            for (start, end) in &lost {
                let range = usize::try_from(*start).expect("small")..usize::try_from(*end).expect("small");
                expected[range].fill(0);
            }
            let bytes = std::fs::read(&found[0]).expect("it stands there");
            assert!(
                bytes == expected,
                "{label}: other bytes; lost {lost:?}, told {:?}",
                told.get(&file.object)
            );
            assert_eq!(told.get(&file.object).cloned().unwrap_or_default(), lost, "{label}");
        }
    }
    counts
}

#[test]
fn one_in_a_hundred_places_costs_what_lies_below_it() {
    let mut damaged = 0;
    for (name, seed) in [("g02-single-default", 1), ("g10-snapshots-clones", 2), ("g18-v28", 3)] {
        damaged += round(name, Target::Places, 100, seed)[0];
    }
    assert!(damaged > 0, "no file was damaged");
}

#[test]
fn one_in_a_hundred_blocks_of_files_directories_and_dnodes_costs_what_lies_below_it() {
    let mut counts = [0; 3];
    for (name, one_in, seed) in
        [("g11-many", 100, 1), ("g10-snapshots-clones", 10, 2), ("g10-snapshots-clones", 5, 3)]
    {
        let more = round(name, Target::Blocks, one_in, seed);
        counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
    }
    let [damaged, lost, nameless] = counts;
    assert!(damaged > 0 && lost > 0 && nameless > 0, "damaged, lost, without a name: {counts:?}");
}

#[test]
fn without_its_master_node_a_dataset_comes_back_below_lost_and_found() {
    let name = "g01-single-nofeat";
    let datasets = known(name);
    let dataset = datasets.iter().find(|dataset| dataset.name == "whirl/fs").expect("it is there");
    let world = World::copy(name);
    let image = Image::open(&golden::images(name)).expect("one device");
    let file = File::options().write(true).open(&world.search.devices[0]).expect("the copy is ours");
    let mut damaged = 0;
    for (_, slots) in image.objects(&dataset.root).into_iter().filter(|(object, _)| *object == 1) {
        let master = DnodeImage::decode(&slots).expect("OpenZFS wrote it");
        for dva in master.blkptrs.iter().flat_map(Blkptr::dvas) {
            file.write_all_at(&[0x5a; 512], dva.offset.get() + LABEL_START_BYTES).expect("written");
            damaged += 1;
        }
    }
    assert!(damaged > 1, "the master node is in {damaged} places");
    world.rescue();
    assert!(!dataset.files.is_empty());
    for known in &dataset.files {
        let (root, _) = known.above[0];
        let place = world.target().join(format!("lost+found/{}/{root}", dataset.object)).join(&known.path);
        assert!(std::fs::read(&place).expect("it stands there") == known.bytes, "{}", place.display());
    }
    let report = world.report();
    let is_told = |what: &str| report.iter().any(|line| line.dataset == dataset.name && line.what == what);
    assert!(is_told("attributes"), "{report:?}");
}
