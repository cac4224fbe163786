//! Replication of random trees in memory. Tests the order of streams and the steps of an alignment
//! with trees that consist only of names and guids. The engine's test `replication` does the same
//! with pools.

use super::{AlignStep, Alignment};
use crate::names;
use crate::package::{Member, Package, PackageStream};
use std::collections::BTreeSet;

/// A dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Set {
    name: String,
    /// The oldest first.
    snaps: Vec<(String, u64)>,
    origin: Option<u64>,
}

/// A tree of datasets, which refuses operations as a pool does.
#[derive(Clone, Debug, Default)]
struct ModelTree(Vec<Set>);

impl ModelTree {
    fn at(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|set| set.name == name)
    }

    /// Returns the dataset that has a snapshot, and the index of the snapshot in it.
    fn owner(&self, guid: u64) -> Option<(usize, usize)> {
        let place = |set: &Set| set.snaps.iter().position(|snap| snap.1 == guid);
        self.0.iter().enumerate().find_map(|(at, set)| Some((at, place(set)?)))
    }

    fn has_clones(&self, guid: u64) -> bool {
        self.0.iter().any(|set| set.origin == Some(guid))
    }

    fn create(&mut self, name: &str, origin: Option<u64>) -> bool {
        let parent = names::parent_of(name).is_none_or(|parent| parent == "p" || self.at(parent).is_some());
        let done = parent && self.at(name).is_none();
        if done {
            self.0.push(Set { name: name.to_owned(), snaps: Vec::new(), origin });
        }
        done
    }

    fn snapshot(&mut self, name: &str, snap: &str, guid: u64) -> bool {
        let Some(at) = self.at(name) else { return false };
        let done = self.0[at].snaps.iter().all(|(other, _)| other != snap);
        if done {
            self.0[at].snaps.push((snap.to_owned(), guid));
        }
        done
    }

    fn promote(&mut self, name: &str) -> bool {
        let Some(at) = self.at(name) else { return false };
        let Some((owner, place)) = self.0[at].origin.and_then(|origin| self.owner(origin)) else {
            return false;
        };
        let taken = &self.0[owner].snaps[..=place];
        let own = &self.0[at].snaps;
        if taken.iter().any(|(name, _)| own.iter().any(|(other, _)| other == name)) {
            return false;
        }
        let taken: Vec<_> = self.0[owner].snaps.drain(..=place).collect();
        self.0[at].snaps.splice(..0, taken);
        let origin = self.0[at].origin;
        self.0[at].origin = std::mem::replace(&mut self.0[owner].origin, origin);
        true
    }

    fn rename(&mut self, name: &str, new: &str) -> bool {
        let parent = names::parent_of(new).is_some_and(|parent| self.at(parent).is_some());
        let is_free = self.at(new).is_none() && !names::is_within(new, name);
        let done = parent && is_free && self.at(name).is_some();
        for set in self.0.iter_mut().filter(|set| done && names::is_within(&set.name, name)) {
            set.name = format!("{new}{}", &set.name[name.len()..]);
        }
        done
    }

    fn destroy(&mut self, name: &str) -> bool {
        let inside = |set: &Set| names::is_within(&set.name, name);
        let going: Vec<u64> =
            self.0.iter().filter(|set| inside(set)).flat_map(|set| &set.snaps).map(|snap| snap.1).collect();
        let outside = self.0.iter().filter(|set| !inside(set));
        let done = self.at(name).is_some()
            && outside.filter_map(|set| set.origin).all(|origin| !going.contains(&origin));
        if done {
            self.0.retain(|set| !names::is_within(&set.name, name));
        }
        done
    }

    fn destroy_snapshot(&mut self, full: &str) -> bool {
        let Some((head, snap)) = full.split_once('@') else { return false };
        let Some(at) = self.at(head) else { return false };
        let found = self.0[at].snaps.iter().position(|(name, _)| name == snap);
        let Some(place) = found.filter(|&place| !self.has_clones(self.0[at].snaps[place].1)) else {
            return false;
        };
        self.0[at].snaps.remove(place);
        true
    }

    fn rename_snapshot(&mut self, full: &str, new: &str) -> bool {
        let (Some((head, snap)), Some((_, new))) = (full.split_once('@'), new.split_once('@')) else {
            return false;
        };
        let Some(at) = self.at(head) else { return false };
        if self.0[at].snaps.iter().any(|(name, _)| name == new) {
            return false;
        }
        let found = self.0[at].snaps.iter_mut().find(|(name, _)| name == snap);
        found.map(|found| found.0 = new.to_owned()).is_some()
    }

    /// Returns the contents of a package of this tree.
    fn members(&self, from: Option<&str>, to: Option<&str>) -> Vec<Member> {
        let mut sets: Vec<&Set> = self.0.iter().collect();
        sets.sort_by_key(|set| set.name.split('/').map(str::to_owned).collect::<Vec<_>>());
        let guid = |set: &Set, snap: Option<&str>| {
            set.snaps.iter().find(|(name, _)| Some(name.as_str()) == snap).map(|snap| snap.1)
        };
        let member = |set: &&Set| {
            let parent = names::parent_of(&set.name).and_then(|parent| self.at(parent)).map(|at| &self.0[at]);
            let parent_from = parent.and_then(|parent| guid(parent, from).or(guid(parent, to)));
            let origin = set.origin.and_then(|origin| self.owner(origin));
            Member {
                name: set.name.clone(),
                parent_from: parent_from.unwrap_or_default(),
                origin: set.origin,
                origin_name: origin
                    .map(|(at, snap)| format!("{}@{}", self.0[at].name, self.0[at].snaps[snap].0)),
                snaps: set.snaps.clone(),
                ..Member::default()
            }
        };
        sets.iter().map(member).collect()
    }

    /// Returns the names, snapshots and origins, below another root.
    fn shape(&self, root: &str) -> Vec<Set> {
        let named = |set: &Set| Set { name: set.name.replacen(root, "", 1), ..set.clone() };
        let mut sets: Vec<Set> = self.0.iter().map(named).collect();
        sets.sort_by(|one, other| one.name.cmp(&other.name));
        sets
    }
}

/// A local tree that follows a package.
struct Replica<'a> {
    tree: &'a mut ModelTree,
    theirs: &'a Package,
    wanted: Vec<String>,
}

impl Replica<'_> {
    fn here(name: &str) -> String {
        name.replacen("p/t", "q/t", 1)
    }

    fn with<T>(&self, ask: impl FnOnce(&Alignment<'_>) -> T) -> T {
        let local = self.tree.members(self.theirs.fromsnap.as_deref(), None);
        let force = self.theirs.fromsnap.is_some();
        let (theirs, wanted) = (self.theirs, self.wanted.as_slice());
        ask(&Alignment { local: &local, theirs, wanted, root: "q/t", force })
    }

    fn align(&mut self) {
        let mut failed: Vec<AlignStep> = Vec::new();
        for _ in 0..1000 {
            let steps = self.with(|alignment| alignment.has_root().then(|| alignment.steps()));
            let mut is_done = false;
            for step in steps.unwrap_or_default() {
                if failed.contains(&step) {
                    continue;
                }
                if is_done && !step.leaves_others() {
                    break;
                }
                match self.take(&step) {
                    false => failed.push(step),
                    true => {
                        is_done = true;
                        if !step.leaves_others() {
                            break;
                        }
                    }
                }
            }
            if !is_done {
                return;
            }
            failed.clear();
        }
        panic!("it does not settle: {:?}", self.tree);
    }

    fn take(&mut self, step: &AlignStep) -> bool {
        match step {
            AlignStep::Promote(name) => self.tree.promote(name),
            AlignStep::DestroySnapshots(names) => {
                names.iter().fold(false, |done, name| self.tree.destroy_snapshot(name) | done)
            }
            AlignStep::RenameSnapshot(name, new) => self.tree.rename_snapshot(name, new),
            AlignStep::Rename(name, new) => self.tree.rename(name, new),
            AlignStep::Destroy(name) => {
                let set = self.tree.at(name).map(|at| &self.tree.0[at]);
                set.is_some_and(|set| set.snaps.is_empty()) && self.tree.destroy(name)
            }
        }
    }

    /// Receives a stream of a package as the engine does.
    fn receive(&mut self, stream: &PackageStream) -> Result<(), String> {
        let sent_head = names::head_of(&stream.sent_as);
        let (_, snap) = stream.sent_as.split_once('@').expect("a snapshot");
        let mut head = Self::here(sent_head);
        let (from, is_new) =
            (stream.from.as_ref().map(|from| from.1), stream.from.is_none() || stream.is_of_clone);
        let parent = names::parent_of(&head).expect("below a pool").to_owned();
        if is_new && parent != "q" && self.tree.at(&parent).is_none() {
            let member = self.theirs.members.iter().find(|member| member.name == sent_head).expect("there");
            let (at, _) = self.tree.owner(member.parent_from).ok_or("its parent is not there")?;
            head = format!("{}{}", self.tree.0[at].name, &head[parent.len()..]);
        }
        if !is_new && self.tree.at(&head).is_none() {
            let (at, _) = from.and_then(|from| self.tree.owner(from)).ok_or("its source is not there")?;
            head = self.tree.0[at].name.clone();
        }
        let has = |set: &Set, guid: u64| set.snaps.iter().any(|snap| snap.1 == guid);
        if is_new {
            self.make_room(&head, sent_head, from.unwrap_or_default());
        }
        let there = |tree: &ModelTree| tree.at(&head).map(|at| tree.0[at].clone());
        if there(self.tree).is_some_and(|set| has(&set, stream.guid)) {
            return Ok(());
        }
        // The stream of a clone continues a dataset that has taken over the clone's origin.
        let continues = from.is_some_and(|from| there(self.tree).is_some_and(|set| has(&set, from)));
        if is_new && !continues {
            match there(self.tree) {
                None if stream.is_of_clone && from.is_none_or(|from| self.tree.owner(from).is_none()) => {
                    return Err(format!("local origin for clone {head} does not exist"));
                }
                None => self.tree.0.push(Set { name: head.clone(), snaps: Vec::new(), origin: from }),
                Some(set) if from.is_none() && set.snaps.is_empty() && set.origin.is_none() => {}
                Some(_) => return Err(format!("destination {head} has snapshots")),
            }
        } else {
            let from = from.expect("incremental");
            let at = self.tree.at(&head).ok_or("destination does not exist")?;
            let place = self.tree.0[at].snaps.iter().position(|snap| snap.1 == from);
            let place = place.ok_or(format!("most recent snapshot of {head} does not match"))?;
            let newer = &self.tree.0[at].snaps[place + 1..];
            if newer.iter().any(|snap| self.tree.has_clones(snap.1)) {
                return Err(format!("newer snapshots of {head} have clones"));
            }
            self.tree.0[at].snaps.truncate(place + 1);
        }
        match self.tree.snapshot(&head, snap, stream.guid) {
            true => Ok(()),
            false => Err(format!("{head}@{snap} exists")),
        }
    }

    fn make_room(&mut self, head: &str, sent_head: &str, origin: u64) {
        if let Some(step) = self.with(|alignment| alignment.step_before(head, sent_head, origin)) {
            self.take(&step);
        }
    }
}

/// The result of the replication of a package.
fn replicate(
    source: &ModelTree,
    replica: &mut ModelTree,
    from: Option<&str>,
    to: &str,
    all: bool,
) -> Result<(), String> {
    let theirs = Package {
        fromsnap: from.map(str::to_owned),
        tosnap: to.to_owned(),
        recursive: true,
        members: source.members(from, Some(to)),
        ..Package::default()
    };
    let top = source.at("p/t").map(|at| &source.0[at].snaps);
    if from.is_some_and(|from| top.is_none_or(|snaps| snaps.iter().all(|(name, _)| name != from))) {
        return Err("cannot open the snapshot of the topmost dataset that it starts from".to_owned());
    }
    let streams = theirs.streams(all).map_err(|error| error.to_string())?;
    let wanted = theirs.members.iter().map(|member| Replica::here(&member.name)).collect();
    let mut replica = Replica { tree: replica, theirs: &theirs, wanted };
    if from.is_some() {
        replica.align();
    }
    let mut came = BTreeSet::new();
    for stream in &streams {
        replica.receive(stream).map_err(|reason| format!("{}: {reason}", stream.sent_as))?;
        came.insert(stream.guid);
    }
    replica.align();
    let told = replica.with(|alignment| alignment.differences(&came));
    if told.is_empty() { Ok(()) } else { Err(format!("differs: {}", told.join("; "))) }
}

struct ModelDraw(u64);

impl ModelDraw {
    fn below(&mut self, count: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % count.max(1) as u64) as usize
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        let at = self.below(all.len());
        all.get(at).cloned()
    }
}

/// A random event in the tree below `root`.
fn happens(tree: &mut ModelTree, root: &str, draw: &mut ModelDraw, guids: &mut u64) -> Option<String> {
    const NAMES: [&str; 3] = ["a", "b", "c"];
    const SNAPS: [&str; 4] = ["s", "u", "v", "w"];
    let sets: Vec<String> = tree.0.iter().map(|set| set.name.clone()).collect();
    let below: Vec<String> = sets.iter().filter(|name| *name != root).cloned().collect();
    let snap = |set: &Set| {
        set.snaps.iter().map(|(name, guid)| (format!("{}@{name}", set.name), *guid)).collect::<Vec<_>>()
    };
    let snaps: Vec<(String, u64)> = tree.0.iter().flat_map(snap).collect();
    let others: Vec<String> =
        snaps.iter().map(|(name, _)| name.clone()).filter(|name| !name.contains("@r")).collect();
    let place = format!("{}/{}", draw.of(&sets)?, NAMES[draw.below(3)]);
    let other = SNAPS[draw.below(4)];
    if place.matches('/').count() > 5 {
        return None;
    }
    match draw.below(14) {
        0 | 1 => tree.create(&place, None).then(|| format!("create {place}")),
        2..=4 => {
            let (name, guid) = draw.of(&snaps)?;
            tree.create(&place, Some(guid)).then(|| format!("clone {name} {place}"))
        }
        5..=8 => {
            let name = draw.of(&below)?;
            tree.promote(&name).then(|| format!("promote {name}"))
        }
        9 | 10 => {
            let name = draw.of(&below)?;
            tree.rename(&name, &place).then(|| format!("rename {name} {place}"))
        }
        11 => {
            let name = draw.of(&below)?;
            tree.destroy(&name).then(|| format!("destroy -r {name}"))
        }
        12 => {
            let name = draw.of(&sets)?;
            *guids += 1;
            tree.snapshot(&name, other, *guids).then(|| format!("snapshot {name}@{other}"))
        }
        _ => {
            let name = draw.of(&others)?;
            // A snapshot that a replica has lost is not sent again.
            if root == "p/t" && draw.below(2) == 0 {
                return tree.destroy_snapshot(&name).then(|| format!("destroy {name}"));
            }
            let new = format!("{}@{other}", names::head_of(&name));
            tree.rename_snapshot(&name, &new).then(|| format!("rename {name} {new}"))
        }
    }
}

/// True if a package may fail with this reason: two snapshots of one dataset would have the same
/// name, a clone has taken over the snapshot from which the stream of the topmost dataset starts,
/// or the replica has lost that snapshot. About one package in some thousands fails because the
/// tree cannot be aligned; the failure names the dataset.
fn is_expected(reason: &str, is_changed: bool) -> bool {
    let lost = ["its source is not there", "its parent is not there", "does not match", "does not exist"];
    let always = ["rename one of the two snapshots", "cannot open", "differs: "];
    always.iter().any(|known| reason.contains(known))
        || is_changed && lost.iter().any(|known| reason.contains(known))
}

/// Replicates a tree through a random life. Returns the number of packages that made equal trees,
/// of those that failed, and of failures after which the tree could not be aligned.
fn live(seed: u64) -> Result<(u64, u64, u64), String> {
    let mut draw = ModelDraw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let (mut source, mut replica, mut guids) = (ModelTree::default(), ModelTree::default(), 0);
    ["p/t", "p/t/a", "p/t/b"].iter().for_each(|name| assert!(source.create(name, None)));
    let (mut story, mut from, mut counts) = (Vec::new(), None::<String>, (0, 0, 0));
    for round in 0..8 {
        for _ in 0..=draw.below(10) {
            story.extend(happens(&mut source, "p/t", &mut draw, &mut guids));
        }
        let is_changed = draw.below(3) == 0 && replica.0.len() > 1;
        if is_changed {
            story.extend(happens(&mut replica, "q/t", &mut draw, &mut guids));
        }
        let to = format!("r{round}");
        for name in source.0.iter().map(|set| set.name.clone()).collect::<Vec<_>>() {
            guids += 1;
            assert!(source.snapshot(&name, &to, guids));
        }
        story.push(format!("--- {to}"));
        let mut made = replicate(&source, &mut replica, from.as_deref(), &to, true);
        if let Err(reason) = &made
            && is_expected(reason, is_changed)
        {
            counts.1 += 1;
            counts.2 += u64::from(reason.starts_with("differs"));
            replica = ModelTree::default();
            made = replicate(&source, &mut replica, None, &to, true);
            if made.as_ref().is_err_and(|reason| is_expected(reason, false)) {
                // A full package fails too, so this life ends.
                return Ok(counts);
            }
        }
        let is_equal = source.shape("p/t") == replica.shape("q/t");
        if made.is_err() || !is_equal {
            let lines = |sets: Vec<Set>| sets.iter().map(|set| format!("{set:?}\n")).collect::<String>();
            let (theirs, ours) = (lines(source.shape("p/t")), lines(replica.shape("q/t")));
            return Err(format!("{}\n{made:?}\n{theirs}is at the replica\n{ours}", story.join("\n")));
        }
        counts.0 += 1;
        from = Some(to);
    }
    Ok(counts)
}

#[test]
fn every_package_makes_a_tree_the_sender_s_or_says_why_not() {
    let seeds = std::env::var("SAWMILL_SEEDS").unwrap_or_else(|_| "1-400".to_owned());
    let (first, last) = seeds.split_once('-').unwrap_or((&seeds, &seeds));
    let number = |text: &str| text.parse::<u64>().expect("SAWMILL_SEEDS is a number or FIRST-LAST");
    let (mut equal, mut failed, mut differing) = (0, 0, 0);
    for seed in number(first)..=number(last) {
        match live(seed) {
            Ok(counts) => {
                (equal, failed, differing) = (equal + counts.0, failed + counts.1, differing + counts.2)
            }
            Err(broken) => panic!("seed {seed}: {broken}"),
        }
    }
    println!("{equal} packages made equal trees, {failed} failed, {differing} of these at the end");
    assert!(equal > 4 * failed && equal > 1000 * differing, "{equal}, {failed}, {differing}");
}
