//! All mutants, by what they are about.

mod devices;
mod files;
mod logs;
mod pools;
mod space;
mod streams;

use super::{Lane, Mutant, TestTarget};

const ALL: [&[Mutant]; 6] =
    [devices::MUTANTS, space::MUTANTS, pools::MUTANTS, logs::MUTANTS, files::MUTANTS, streams::MUTANTS];

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
