//! Pools that have seen all kinds of work, judged by `zdb` and against a model.
//!
//! Txgs sync only when a test says so; a crash is a copy of the devices' files while the pool is
//! open. Random work comes from a seed, which a failure names; `SAWMILL_SEEDS=100-200` tries others.

mod classes;
mod clones;
mod closing;
mod codecs;
mod damage;
mod dice;
mod directories;
mod evacuations;
mod file;
mod fill;
mod freeing;
mod gangs;
mod grub;
mod layouts;
mod livelists;
mod lives;
mod logs;
mod quota;
mod raidz;
mod receives;
mod records;
mod reimport;
mod resting;
mod rewrite;
mod rounds;
mod scrub;
mod sizes;
mod space_maps;
mod split;
#[path = "../streams/mod.rs"]
mod streams;
mod tree;
mod trim;
mod volumes;
mod world;
