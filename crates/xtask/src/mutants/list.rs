//! All mutants, by what they are about.

mod damage;
mod datasets;
mod devices;
mod files;
mod imports;
mod limits;
mod logs;
mod mounts;
mod pools;
mod processes;
mod rights;
mod space;
mod streams;

use super::{Lane, Mutant, TestTarget};

const ALL: [&[Mutant]; 13] = [
    devices::MUTANTS,
    imports::MUTANTS,
    space::MUTANTS,
    damage::MUTANTS,
    pools::MUTANTS,
    logs::MUTANTS,
    files::MUTANTS,
    limits::MUTANTS,
    mounts::MUTANTS,
    datasets::MUTANTS,
    streams::MUTANTS,
    rights::MUTANTS,
    processes::MUTANTS,
];

/// All mutants.
pub fn mutants() -> impl Iterator<Item = &'static Mutant> {
    ALL.into_iter().flatten()
}

/// One test of a library.
const fn lib(package: &'static str, filter: &'static str) -> Lane {
    Lane { package, target: TestTarget::Lib, filter, env: &[] }
}

/// One test of a test program.
const fn test(package: &'static str, program: &'static str, filter: &'static str) -> Lane {
    Lane { package, target: TestTarget::Test(program), filter, env: &[] }
}
