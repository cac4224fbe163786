//! Damage, in simulated worlds: what a pool does when it cannot read a part of its metadata.
//!
//! `lost`: each type of metadata block is lost, and read by all code that uses it.
//! `leaks`: a removed file or dataset has blocks that cannot be found.
//! `rewinds`: the newest state is damaged, and an older one is imported.
//!
//! A failure prints the lost block, or its seed and the image's story. `SAWMILL_DAMAGE=all` loses
//! every block in its turn (`cargo xtask damage`).
#![forbid(unsafe_code)]

/// The module that the files of the other lanes expect under this name.
mod ground {
    use std::time::Duration;

    use pool::Tuning;

    use crate::shape::brisk;

    /// No txg ends by itself.
    pub fn quiet() -> Tuning {
        Tuning { txg_timeout: Duration::from_secs(100_000), ..brisk() }
    }
}
mod leaks;
mod lost;
#[path = "../crash/owned.rs"]
mod owned;
mod rewinds;
#[expect(dead_code, reason = "the other lanes have more shapes")]
#[path = "../crash/shape.rs"]
mod shape;
#[path = "../crash/space.rs"]
mod space;
#[path = "../crash/story.rs"]
mod story;
