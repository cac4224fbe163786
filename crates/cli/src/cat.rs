//! `sawmill cat`: files and volumes to standard output.

use crate::args::{Args, Spec};
use crate::program::Command;
use crate::session::{Outcome, Session, Stop};
use crate::visit::place::{Place, common_pool};
use crate::visit::{Access, FORCE, SEARCH, Visit, words};
use engine::refusal;
use pool::{PoolError, Volume};
use sawmill::{Error, FileKind};
use std::io::Write;
use units::ObjectId;
use zpl::{Zfs, ZplError};

pub const COMMAND: Command = Command::new(
    Spec {
        name: "cat",
        alias: None,
        about: "writes files, or volumes, of a pool that is not in use to standard output",
        flags: &[FORCE, SEARCH],
        operands: "<pool/filesystem[@snapshot]:path | pool/volume[@snapshot]> ...",
    },
    run,
);

/// Bytes read at a time.
const STEP_BYTES: usize = 1 << 20;

fn run(session: &mut Session, args: &Args) -> Outcome {
    let places = args.operands.iter().map(|text| Place::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let visit = Visit::open(args, common_pool(&places)?, Access::Read)?;
    let mut code = 0;
    for place in &places {
        // All of a volume may also be written with the colon, as for `cp`.
        let is_file = place.text.contains(':') && visit.volume_at(place)?.is_none();
        let done = match is_file {
            true => file(session, &visit, place)?,
            false => volume(session, &visit, place)?,
        };
        if let Err(reason) = done {
            eprintln!("cat: {}: {reason}", place.text);
            code = 1;
        }
    }
    Ok(visit.code(code))
}

/// What is wrong with one operand; the others are still written.
type Done = Result<(), String>;

fn file(session: &mut Session, visit: &Visit, place: &Place) -> Result<Done, Stop> {
    let files = visit.files(place)?;
    let found = match visit.env().block_on(files.metadata(&place.path)) {
        Ok(found) => found,
        Err(error) => return Ok(Err(words::reason(&error))),
    };
    if found.kind != FileKind::File {
        let source = if found.kind == FileKind::Directory {
            ZplError::IsDirectory
        } else {
            ZplError::Invalid("not a file")
        };
        return Ok(Err(words::reason(&Error::File { path: String::new(), source })));
    }
    let zfs = files.zfs();
    let read = |at, into: &mut [u8]| read_file(visit, zfs, found.object, at, into);
    copy(session, found.size, read)
}

fn volume(session: &mut Session, visit: &Visit, place: &Place) -> Result<Done, Stop> {
    let volume = visit.volume(&place.dataset)?;
    copy(session, volume.size_bytes(), |at, into: &mut [u8]| read_volume(visit, &volume, at, into))
}

fn read_file(visit: &Visit, zfs: &Zfs, file: ObjectId, at: u64, into: &mut [u8]) -> Result<usize, String> {
    visit.env().block_on(zfs.read(file, at, into)).map_err(|error| words::file(&error))
}

fn read_volume(visit: &Visit, volume: &Volume, at: u64, into: &mut [u8]) -> Result<usize, String> {
    let read = visit.env().block_on(volume.read(at, into));
    read.map_err(|error| refusal::chain(&PoolError::from(error)))
}

fn copy(
    session: &mut Session,
    size: u64,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, String>,
) -> Result<Done, Stop> {
    let mut step = vec![0; STEP_BYTES];
    let mut out = session.contents()?;
    let mut at = 0;
    while at < size {
        let count = match read(at, &mut step) {
            Ok(count) => count,
            Err(reason) => return Ok(Err(reason)),
        };
        if count == 0 {
            break;
        }
        out.write_all(&step[..count])?;
        at += count as u64;
    }
    out.flush()?;
    Ok(Ok(()))
}
