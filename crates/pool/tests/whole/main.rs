//! Whole pools, one matter a file. One program: each has all of the engine in it, and takes long to build.
//!
//! `zdb` judges what we make, `caches` with cache devices, `many` with hundreds of datasets. `hosts`: pools of another
//! host, `multihost`: those that two of them reach. `log_load`: what txgs leave in the log.
//! `failing_disk`: a file system below that fails on demand.
#![forbid(unsafe_code)]

mod caches;
mod failing_disk;
mod hosts;
mod log_load;
mod many;
mod multihost;
mod zdb;
