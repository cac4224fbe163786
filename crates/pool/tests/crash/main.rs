//! Crashes and failing devices, in simulated worlds.
//!
//! - `images`: runs are recorded. Some of the states that a power cut could have left of the disks
//!   are imported and compared with the acknowledged writes.
//! - `failures`: logs and mirror children fail while files are written.
//! - `faults`: each request of a small history fails in its turn.
//! - `histories`: all short histories, and all states in which a power cut could leave them.
//! - `full`: logs fill, the only disk fails, threads continue.
//! - `attached`: devices are attached, replaced and detached.
//! - `comings`: the same and more, at random.
//! - `checkpoints`: checkpoints are made, discarded and returned to.
//! - `replaced`: a device is replaced.
//! - `suspended`: disks fail in a txg's sync and work again.
//! - `tasks`: every read of a change of datasets or of a pool fails.
//! - `administration`: the power is cut in such changes.
//! - `earlier`: the txgs before the last.
//! - `labels`: labels and uberblocks are torn at every sector.
//! - `owned`: objects without an owner.
//! - `unowned`: a planted object without an owner is found.
//! - `reguid`: a pool gets another guid.
//! - `split`: a pool is split.
//! - `clones`: files share blocks.
//! - `receives`: streams are received, and break off.
//! - `snapshots`: snapshots of files that are being written, after a power cut.
//! - `removals`: logs are removed.
//! - `evacuations`: data vdevs are removed.
//! - `events`: the events of all these changes.
//! - `sweeps`: free space is initialized and trimmed.
//! - `memory`: the objects that a dead world leaves in memory.
//! - `volumes`: volumes after a power cut.
//! - `cache_faults`: as `faults`, for a cache device.
//! - `stragglers`: logs that are slow but work.
//! - `leaked`: space on logs without an owner.
//! - `resets`: disks lose their caches while the pool is in use.
//! - `reimport`: each request of an import fails, and the import is repeated.
//! - `absences`: the pool records in time which device lacks data.
//! - `variants`: crash images are imported in every way that an operator can ask for.
//!
//! A failure prints its seed and the image's story. `SAWMILL_CRASH_SEED` runs that seed only;
//! `SAWMILL_CRASH_IMAGES` (images per run) and `SAWMILL_CRASH_RUNS` (runs per shape; of the first
//! so many requests, each fails once) make a longer lane of it.
#![forbid(unsafe_code)]

mod absences;
mod adds;
mod administration;
mod attached;
mod cache_faults;
mod caches;
mod checkpoints;
mod clients;
mod clones;
mod comings;
mod cuts;
mod dice;
mod earlier;
mod evacuations;
mod events;
mod failures;
mod families;
mod faults;
mod foreground;
mod found;
mod full;
mod ground;
mod hanging;
mod histories;
mod homes;
mod images;
mod labels;
mod leaked;
mod leftovers;
mod life;
mod memory;
mod model;
mod numbers;
mod outlook;
mod owned;
mod passes;
mod presence;
mod promise;
mod receives;
mod reguid;
mod reimport;
mod removals;
mod replaced;
mod replay;
mod resets;
mod shape;
mod slow;
mod snapshots;
mod space;
mod spares;
mod split;
mod steps;
mod story;
mod stragglers;
#[path = "../streams/mod.rs"]
mod streams;
mod suspended;
mod sweeps;
mod tasks;
mod unowned;
mod variants;
mod volumes;
mod writers;
