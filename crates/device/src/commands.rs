//! Commands to the driver of a file, which take as long as the driver likes: FUSE hands over its requests that way.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::exec::descriptor::Descriptor;
use crate::exec::flight::{IoFuture, Route};
use crate::exec::op::{Op, Work};

/// One command, and the memory that the driver may use until it has ended.
pub struct Command {
    /// Which, in the driver's own numbers.
    pub code: u32,
    /// What it says, in the driver's own words.
    pub data: [u8; 80],
    /// Memory to be read and written; its length stays as it is.
    pub areas: [Vec<u8>; 2],
}

/// A file whose driver takes commands (`IORING_OP_URING_CMD`, with two areas of memory).
#[derive(Clone)]
pub struct Commands(Arc<Descriptor>);

impl Commands {
    /// Commands to `file`.
    #[must_use]
    pub fn new(file: Arc<OwnedFd>) -> Self {
        Self(Arc::new(Descriptor::new(file, true, false)))
    }

    /// Gives a command; the command again, with what is in its memory now, and how it ended. On a loop only: other
    /// threads have no ring for commands, and the command ends with `EOPNOTSUPP`.
    pub async fn give(&self, command: Command) -> (Command, io::Result<()>) {
        let op = Op::new(Arc::clone(&self.0), 0, Work::Command(command));
        match IoFuture::new(op, Route::Command).await {
            (Work::Command(command), result) => (command, result.map_err(io::Error::from)),
            _ => unreachable!("a command's work stays a command's"),
        }
    }
}
