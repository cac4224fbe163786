//! `sawmill cp`: files between a pool that is not in use and this system.
//!
//! ```text
//!  cp ─► which operands are in the pool? ─► Copier<Inside, Below>     out of the pool
//!                                       └─► Copier<Outside, Inside>   into it; then it is exported
//! ```
//! What went wrong with one file is told, and the others are copied.

mod below;
mod copier;
mod inside;
mod outside;
mod progress;
mod side;
mod volume;

use crate::args::{Args, Flag, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, usage};
use crate::visit::place::{Place, common_pool};
use crate::visit::{Access, FORCE, SEARCH, Visit};
use below::Typed;
use copier::{Copier, How};
use inside::Inside;
use outside::Outside;
pub use progress::Progress;
use side::{CopySource, CopyTarget, join, last_name};
use std::path::Path;
use zpl::FileKind;

pub const COMMAND: Command = Command::new(
    Spec {
        name: "cp",
        alias: None,
        about: "copies files, or volumes, out of a pool that is not in use, or into it",
        flags: &[
            Flag::switch('a', "as -r and -p, and links stay links"),
            FORCE,
            Flag::switch('p', "keep modes, owners, times and extended attributes"),
            Flag::long(
                "partial",
                "copy the readable parts of damaged files of the pool; lost ranges become holes",
            ),
            Flag::switch('r', "directories, with all that is in them").or("recursive"),
            Flag::switch('R', "the same as -r"),
            SEARCH,
        ],
        operands: "<source> ... <target>; in the pool: <pool/filesystem[@snapshot]:path> or <pool/volume[@snapshot]:>",
    },
    run,
);

fn run(_: &mut Session, args: &Args) -> Outcome {
    let Some((target, sources)) = args.operands.split_last().filter(|(_, sources)| !sources.is_empty())
    else {
        return usage("a source and a target are needed");
    };
    let inside = sources.iter().filter(|text| Place::is_meant_by(text)).count();
    match (inside, Place::is_meant_by(target)) {
        (0, true) if args.has_long("partial") => usage("only files of a pool are copied in part"),
        (0, true) => copy_in(args, sources, &Place::parse(target)?),
        (count, false) if count == sources.len() => copy_out(args, sources, target),
        (0, false) => usage("neither source nor target is in a pool: POOL/DATASET:PATH"),
        _ => usage("either the sources or the target must be in the pool, not both"),
    }
}

fn how(args: &Args) -> How {
    let all = args.has('a');
    // There is no asking without setting.
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    How {
        recursive: all || args.has('r') || args.has('R'),
        preserve: all || args.has('p'),
        links: all,
        partial: args.has_long("partial"),
        umask: umask.as_raw_mode(),
    }
}

fn copy_out(args: &Args, sources: &[String], target: &str) -> Outcome {
    let places = sources.iter().map(|text| Place::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let visit = Visit::open(args, common_pool(&places)?, Access::Read)?;
    let typed = match Typed::open(Path::new(target)) {
        Ok(typed) => typed,
        Err(trouble) => return Ok(visit.code(complain(&[(target.to_owned(), trouble)]))),
    };
    if sources.len() > 1 && !typed.is_directory() {
        return Ok(visit.code(complain(&[(target.to_owned(), NO_DIRECTORY.to_owned())])));
    }
    let mut code = 0;
    for place in &places {
        if let Some(volume) = visit.volume_at(place)? {
            code |= volume::copy_out(&visit, place, &volume, &typed, how(args));
            continue;
        }
        let from = Inside { visit: &visit, files: visit.files(place)? };
        let source = place.path.as_bytes();
        let name = if last_name(source).is_empty() {
            last_name(place.dataset.as_bytes())
        } else {
            last_name(source)
        };
        let is_directory = typed.is_directory();
        code |= copy(&from, &typed.below, how(args), &[(source, name)], &typed.path, is_directory);
    }
    Ok(visit.code(code))
}

fn copy_in(args: &Args, sources: &[String], target: &Place) -> Outcome {
    let visit = Visit::open(args, target.pool(), Access::Write)?;
    let done = match visit.volume_at(target) {
        Ok(Some(_)) => match sources {
            [source] => volume::copy_in(&visit, source, target),
            _ => usage("one file goes into a volume"),
        },
        Ok(None) => copy_into(&visit, args, sources, target),
        Err(stop) => Err(stop),
    };
    // Whatever happened, the pool is left exported.
    visit.finish()?;
    done
}

fn copy_into(visit: &Visit, args: &Args, sources: &[String], target: &Place) -> Outcome {
    visit.files(target).map(|files| {
        let to = Inside { visit, files };
        let sources: Vec<_> =
            sources.iter().map(|text| (text.as_bytes(), last_name(text.as_bytes()))).collect();
        let path = target.path.as_bytes();
        let is_directory = match to.there(path, true) {
            Ok(there) => there == Some(FileKind::Directory),
            Err(trouble) => return complain(&[(target.path.clone(), trouble)]),
        };
        if sources.len() > 1 && !is_directory {
            return complain(&[(target.path.clone(), NO_DIRECTORY.to_owned())]);
        }
        copy(&Outside, &to, how(args), &sources, path, is_directory)
    })
}

/// The error for several sources and a target that is not a directory.
const NO_DIRECTORY: &str = "target is not a directory";

/// Copies each source, which has a path and a name, to the target, or into it if that is a
/// directory; gives the exit code.
fn copy<S: CopySource, T: CopyTarget>(
    from: &S,
    to: &T,
    how: How,
    sources: &[(&[u8], &[u8])],
    target: &[u8],
    is_directory: bool,
) -> u8 {
    let mut copier = Copier::new(from, to, how, Progress::new());
    copier.progress.expect(sources.iter().map(|(path, _)| copier.measure(path)).sum());
    for (path, name) in sources {
        let target = if is_directory { join(target, name) } else { target.to_vec() };
        copier.copy(path, &target);
    }
    copier.progress.finish();
    complain(&copier.troubles)
}

fn complain(troubles: &[(String, String)]) -> u8 {
    for (path, trouble) in troubles {
        eprintln!("cp: '{path}': {trouble}");
    }
    u8::from(!troubles.is_empty())
}
