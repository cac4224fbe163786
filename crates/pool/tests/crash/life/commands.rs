//! What an administrator does to devices.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use env::BoxFuture;
use pool::sweep::{Kind, Order};
use pool::{Pool, PoolError};
use sim::Sim;
use units::Guid;
use vdev::{Bias, Leaf, NewVdev, Top};

use super::mishaps::Mishaps;
use super::{DISKS, absence};
use crate::attached::at;
use crate::dice::Dice;

/// Leaves of one vdev, and vdevs, at most.
const LEAVES_MAX: usize = 3;
const VDEVS_MAX: usize = 5;

/// Draws what is done.
pub(super) struct Administrator<'a> {
    sim: &'a Sim,
    pool: &'a Arc<Pool>,
    dice: Dice,
}

/// A command in words, and what comes of it.
type Command<'a> = (String, BoxFuture<'a, Result<(), PoolError>>);

impl<'a> Administrator<'a> {
    pub(super) fn new(sim: &'a Sim, pool: &'a Arc<Pool>, seed: u64) -> Self {
        Self { sim, pool, dice: Dice::new(seed, 1) }
    }

    /// Does one thing; what, and what came of it.
    pub(super) async fn one(&mut self) -> (String, Result<(), PoolError>) {
        let pause = Duration::from_millis(self.dice.below(60));
        self.sim.env().sleep(pause).await;
        let (told, work) = match self.dice.below(5) {
            0 | 1 => self.draw_leaf_command(),
            2 => self.draw_vdev_command(),
            3 => self.draw_auxiliary_command(),
            _ => self.draw_pool_command(),
        };
        super::say(self.sim, &told);
        (told, work.await)
    }

    fn leaf(&mut self) -> Arc<Leaf> {
        let leaves = self.pool.vdevs().leaves();
        Arc::clone(self.dice.pick(&leaves).expect("a pool has leaves"))
    }

    fn top(&mut self) -> Arc<Top> {
        let tops = self.pool.vdevs().tops_with_devices();
        Arc::clone(self.dice.pick(&tops).expect("a pool has vdevs"))
    }

    /// A disk that is in no vdev and on no list.
    fn free_disk(&mut self) -> Option<&'static str> {
        let leaves = self.pool.vdevs().leaves();
        let mut taken: Vec<PathBuf> = leaves.iter().map(|leaf| leaf.path()).collect();
        taken.extend(self.pool.spares().into_iter().chain(self.pool.caches()).map(|listed| listed.path));
        let is_free = |disk: &&str| !taken.iter().any(|path| path.starts_with(disk));
        let free: Vec<_> = DISKS.into_iter().filter(is_free).collect();
        self.dice.pick(&free).copied()
    }

    fn draw_leaf_command(&mut self) -> Command<'a> {
        let (pool, leaf) = (self.pool, self.leaf());
        let (guid, path) = (leaf.guid(), leaf.path().display().to_string());
        let is_narrow = pool.vdevs().top(leaf.vdev()).is_ok_and(|top| top.leaves().len() < LEAVES_MAX);
        match (self.dice.below(7), self.free_disk().filter(|_| is_narrow)) {
            (0 | 1, Some(new)) => (
                format!("attach {new} to {path}"),
                Box::pin(async move { pool.attach(guid, &at(new)).await }),
            ),
            (2, Some(new)) => (
                format!("replace {path} with {new}"),
                Box::pin(async move { pool.replace(guid, &at(new)).await }),
            ),
            (3, _) => (format!("detach {path}"), Box::pin(pool.detach(guid))),
            (4, _) => {
                let (absence, for_now) = (absence(&mut self.dice), self.dice.one_in(2));
                let told = format!("{absence:?} {path}, for now: {for_now}");
                (told, Box::pin(pool.take_offline(guid, absence, for_now)))
            }
            _ => {
                let leaves = pool.vdevs().leaves();
                let out = leaves.iter().find(|leaf| !leaf.is_usable()).map_or(guid, |leaf| leaf.guid());
                ("online".to_owned(), Box::pin(async move { pool.bring_online(out).await.map(|_| ()) }))
            }
        }
    }

    fn draw_vdev_command(&mut self) -> Command<'a> {
        let pool = self.pool;
        let may_grow = pool.vdevs().tops_with_devices().len() < VDEVS_MAX;
        match (self.dice.below(6), self.free_disk().filter(|_| may_grow)) {
            (which @ (0 | 1), Some(disk)) => {
                let bias = if which == 0 { Bias::None } else { Bias::Log };
                let vdev = NewVdev { paths: vec![disk.into()], bias, ..NewVdev::default() };
                (format!("add {disk}, {bias:?}"), Box::pin(pool.add(vec![vdev], true)))
            }
            (2 | 3, _) => {
                let top = self.top();
                let vdev = top.id();
                match top.is_log() {
                    true => (format!("remove log {vdev}"), Box::pin(pool.remove_log(vdev))),
                    false => (format!("remove {vdev}"), Box::pin(pool.evacuate(vdev))),
                }
            }
            (4, _) => ("remove -s".to_owned(), Box::pin(pool.cancel_evacuation())),
            _ => self.draw_sweep(),
        }
    }

    fn draw_sweep(&mut self) -> Command<'a> {
        let (pool, leaf) = (self.pool, self.leaf().guid());
        let kind = if self.dice.one_in(2) { Kind::Initialize } else { Kind::Trim };
        let order = match self.dice.below(3) {
            0 => Order::Cancel,
            1 => Order::Suspend,
            _ => Order::Start { rate: 0, secure: false },
        };
        let work = async move { pool.sweep(kind, order, &[leaf]).await.map(drop) };
        (format!("{kind:?} {order:?}"), Box::pin(work))
    }

    fn draw_auxiliary_command(&mut self) -> Command<'a> {
        let pool = self.pool;
        let listed: Vec<_> = pool.spares().into_iter().chain(pool.caches()).collect();
        let one = self.dice.pick(&listed).map(|listed| listed.guid);
        match (self.dice.below(6), self.free_disk(), one) {
            (0, Some(disk), _) if pool.spares().len() < 2 => {
                (format!("add spare {disk}"), Box::pin(async move { pool.add_spares(&[disk.into()]).await }))
            }
            (1, Some(disk), _) if pool.caches().is_empty() => (
                format!("add cache {disk}"),
                Box::pin(async move { pool.add_caches(&[disk.into()], None).await }),
            ),
            (2, _, Some(guid)) => (format!("remove listed {guid}"), Box::pin(pool.remove_auxiliary(guid))),
            (3, _, _) if !pool.caches().is_empty() => {
                let (cache, absence) = (pool.caches()[0].guid, absence(&mut self.dice));
                (format!("{absence:?} cache"), Box::pin(pool.take_offline(cache, absence, false)))
            }
            (4, _, _) if !pool.caches().is_empty() => {
                let cache = pool.caches()[0].guid;
                (
                    "online cache".to_owned(),
                    Box::pin(async move { pool.bring_online(cache).await.map(|_| ()) }),
                )
            }
            _ => self.draw_stand_in(),
        }
    }

    fn draw_stand_in(&mut self) -> Command<'a> {
        let (pool, leaf) = (self.pool, self.leaf());
        match self.dice.pick(&pool.spares()).map(|spare| spare.guid) {
            Some(spare) => {
                let told = format!("replace {} with a spare", leaf.path().display());
                (told, Box::pin(pool.stand_in(leaf.guid(), spare)))
            }
            None => ("nothing".to_owned(), Box::pin(async { Ok(()) })),
        }
    }

    fn draw_pool_command(&mut self) -> Command<'a> {
        let pool = self.pool;
        match self.dice.below(9) {
            0 => ("scrub".to_owned(), Box::pin(pool.scrub())),
            1 => ("scrub -p".to_owned(), Box::pin(pool.pause_scrub())),
            2 => ("scrub -s".to_owned(), Box::pin(pool.cancel_scrub())),
            3 => ("checkpoint".to_owned(), Box::pin(pool.make_checkpoint())),
            4 => ("checkpoint -d".to_owned(), Box::pin(pool.discard_checkpoint())),
            // A device that fails just then is of a pool that nobody has, but of the same name.
            5 if Mishaps::are_off() => {
                let guid = Guid::new(self.dice.next() | 1);
                ("reguid".to_owned(), Box::pin(pool.change_guid(Some(guid))))
            }
            6 => ("reopen".to_owned(), Box::pin(pool.reopen_devices())),
            7 => ("sync".to_owned(), Box::pin(pool.sync_now())),
            _ => ("clear".to_owned(), Box::pin(async move { pool.clear(&|_| true).await })),
        }
    }
}
