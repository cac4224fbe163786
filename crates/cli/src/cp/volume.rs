//! A volume's bytes into a file of this system, and a file's into a volume. Holes stay holes.

use super::below::Typed;
use super::copier::lost_words;
use super::inside::salvage;
use super::outside::Outside;
use super::side::{CopySource, CopyTarget, Trouble, last_name};
use super::{How, complain};
use crate::session::{Outcome, Stop};
use crate::visit::Visit;
use crate::visit::place::Place;
use control::{Failure, FailureKind};
use engine::refusal;
use pool::{PoolError, Volume, ZvolError};
use std::sync::Arc;
use units::ObjectId;
use zpl::{FileKind, SeekTo};

/// Bytes copied at a time.
const STEP_BYTES: usize = 1 << 20;
const NEW_FILE: u32 = 0o666;
/// The object with the data of a volume.
const VOLUME_DATA: ObjectId = ObjectId::new(1);

fn words(error: ZvolError) -> Trouble {
    refusal::chain(&PoolError::from(error))
}

/// Runs of data that are to be copied, and where they come from and go to.
trait Copying {
    /// The first run of data at or after an offset: where it starts and ends.
    fn data(&self, from: u64) -> Result<Option<(u64, u64)>, Trouble>;
    fn read(&self, at: u64, into: &mut [u8]) -> Result<usize, Trouble>;
    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Trouble>;
    /// Sees to it that nothing is between runs of data.
    fn skip(&self, from: u64, to: u64) -> Result<(), Trouble>;

    fn run(&self, size: u64) -> Result<(), Trouble> {
        let (mut at, mut step) = (0, vec![0; STEP_BYTES]);
        while let Some((start, end)) = self.data(at)? {
            self.skip(at, start)?;
            at = start;
            while at < end {
                let room = usize::try_from(end - at).map_or(STEP_BYTES, |left| left.min(STEP_BYTES));
                let count = self.read(at, &mut step[..room])?;
                if count == 0 {
                    return Err("it shrank while it was copied".into());
                }
                self.write(at, &step[..count])?;
                at += count as u64;
            }
        }
        self.skip(at, size)
    }
}

struct Out<'a> {
    visit: &'a Visit,
    from: &'a Volume,
    target: &'a Typed,
    to: std::fs::File,
}

impl Copying for Out<'_> {
    fn data(&self, from: u64) -> Result<Option<(u64, u64)>, Trouble> {
        let seek = |at, to| self.visit.env().block_on(self.from.seek(at, to)).map_err(words);
        let Some(start) = seek(from, SeekTo::Data)? else { return Ok(None) };
        Ok(Some((start, seek(start, SeekTo::Hole)?.unwrap_or(self.from.size_bytes()))))
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<usize, Trouble> {
        self.visit.env().block_on(self.from.read(at, into)).map_err(words)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Trouble> {
        self.target.below.write(&self.to, at, bytes)
    }

    /// A new file has nothing there.
    fn skip(&self, _from: u64, to: u64) -> Result<(), Trouble> {
        self.target.below.set_size(&self.to, to)
    }
}

struct In<'a> {
    visit: &'a Visit,
    from: std::fs::File,
    size: u64,
    to: Arc<Volume>,
}

impl Copying for In<'_> {
    fn data(&self, from: u64) -> Result<Option<(u64, u64)>, Trouble> {
        Outside.data(&self.from, from, self.size)
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<usize, Trouble> {
        Outside.read(&self.from, at, into)
    }

    fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Trouble> {
        self.visit.env().block_on(self.to.write(at, bytes, false)).map_err(words)
    }

    fn skip(&self, from: u64, to: u64) -> Result<(), Trouble> {
        self.visit.env().block_on(self.to.free(from, to - from, false)).map_err(words)
    }
}

/// Copies a volume, or a snapshot of one, into a file, or into a directory under the volume's name; gives the exit code.
pub fn copy_out(visit: &Visit, place: &Place, volume: &Volume, target: &Typed, how: How) -> u8 {
    let done = (|| {
        let path = match target.is_directory() {
            true => last_name(place.dataset.as_bytes()),
            false => &target.path,
        };
        let to = target.below.create(path, NEW_FILE & !how.umask)?;
        match how.partial {
            true => out_in_part(visit, place, volume, target, &to),
            false => Out { visit, from: volume, target, to }.run(volume.size_bytes()),
        }
    })();
    told(&place.text, done)
}

/// Copies the readable parts of a volume. Lost parts stay holes.
fn out_in_part(
    visit: &Visit,
    place: &Place,
    volume: &Volume,
    target: &Typed,
    to: &std::fs::File,
) -> Result<(), Trouble> {
    let objset = visit.env().block_on(visit.pool().frozen_objset(&place.dataset));
    let objset = objset.map_err(|error| refusal::chain(&error))?.ok_or("not a volume")?;
    let put = &mut |at: u64, bytes: &[u8]| target.below.write(to, at, bytes);
    let lost = salvage(visit, &objset, VOLUME_DATA, volume.size_bytes(), put)?;
    target.below.set_size(to, volume.size_bytes())?;
    if lost.ranges.is_empty() { Ok(()) } else { Err(lost_words(&lost)) }
}

/// Copies a file into a volume from its beginning on; what the volume has behind that stays. Gives the exit code.
pub fn copy_in(visit: &Visit, source: &str, place: &Place) -> Outcome {
    if place.dataset.contains('@') {
        let reason = "snapshots do not change";
        return Err(Stop::Failed(Failure::cannot(FailureKind::Invalid, "open", &place.dataset, reason)));
    }
    let opened = visit.env().block_on(visit.pool().open_volume(&place.dataset));
    let to = opened.map_err(|e| refusal::pool("open", &place.dataset, &e))?;
    let done = (|| {
        let found = Outside.meta(source.as_bytes(), true)?.ok_or("No such file or directory")?;
        if found.kind != FileKind::File {
            return Err("not a file".into());
        }
        let room = to.size_bytes();
        if found.size > room {
            return Err(format!("{} bytes do not fit into a volume of {room}", found.size));
        }
        In { visit, from: Outside.open(source.as_bytes())?, size: found.size, to }.run(found.size)
    })();
    Ok(told(source, done))
}

fn told(path: &str, done: Result<(), Trouble>) -> u8 {
    match done {
        Ok(()) => 0,
        Err(trouble) => complain(&[(path.to_owned(), trouble)]),
    }
}
