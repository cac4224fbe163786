//! How a file of a kstat looks (OpenZFS: `module/os/linux/spl/spl-kstat.c`,
//! `include/os/linux/spl/sys/kstat.h`).
//!
//! ```text
//!  named:  KID TYPE FLAGS NDATA NDATASIZE CRTIME SNAPTIME     7 1 0x01 2 544 5214787391 73405258558961
//!          name, 31 columns; type, 4; data                    name                            type data
//!                                                             zil_commit_count                4    12
//!  io:     the same first line, type 3                        9 3 0x00 1 80 5214787391 73405258558961
//!          twelve names and twelve numbers, 8 columns each    nread    nwritten reads    writes   ...
//!  raw:    lines of its own; no first line for `state`, `guid`, `txgs`
//! ```
//! Times are nanoseconds of the system's monotonic clock. NDATASIZE is what the kernel's structures
//! would take.

use std::fmt::{self, Write as _};

/// `KSTAT_TYPE_NAMED`.
const TYPE_NAMED: u8 = 1;
/// `KSTAT_TYPE_IO`.
const TYPE_IO: u8 = 3;
/// `KSTAT_FLAG_VIRTUAL`.
const FLAG_VIRTUAL: u8 = 0x01;
/// The size of a `kstat_named_t`: a name of 255 bytes, its type, 16 bytes of data.
const NAMED_BYTES: usize = 272;
/// The size of a `kstat_io_t`.
const IO_BYTES: usize = 80;
/// Beside a string's `kstat_named_t`, its buffer: the longest name of a dataset (`ZFS_MAX_DATASET_NAME_LEN`).
const STRING_BYTES: usize = 256;

/// What only whoever shows a file knows of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// A number that no other file has.
    pub kid: u64,
    /// When the file was first there, in nanoseconds of the monotonic clock.
    pub created_nanos: u64,
    /// When its figures were taken, in nanoseconds of the same clock.
    pub taken_nanos: u64,
}

/// The data of a line, and its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Data {
    /// `KSTAT_DATA_INT64`.
    Signed(i64),
    /// `KSTAT_DATA_UINT64`.
    Number(u64),
    /// `KSTAT_DATA_STRING`.
    Text(String),
}

impl Data {
    fn type_number(&self) -> u8 {
        match self {
            Self::Signed(_) => 3,
            Self::Number(_) => 4,
            Self::Text(_) => 7,
        }
    }
}

impl fmt::Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Signed(number) => number.fmt(f),
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => {
                text.chars().try_for_each(|c| f.write_char(if c.is_control() { '?' } else { c }))
            }
        }
    }
}

/// The first line, as far as the figures decide it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KstatHead {
    kind: u8,
    flags: u8,
    count: usize,
    bytes: usize,
}

impl KstatHead {
    /// The whole line.
    pub(crate) fn line(&self, stamp: &Stamp) -> String {
        let Self { kind, flags, count, bytes } = self;
        let Stamp { kid, created_nanos, taken_nanos } = stamp;
        format!("{kid} {kind} 0x{flags:02x} {count} {bytes} {created_nanos} {taken_nanos}\n")
    }
}

/// The lines of a named kstat, and what its first line says of them.
pub(crate) fn named(lines: &[(&str, Data)]) -> (KstatHead, String) {
    let strings = lines.iter().filter(|(_, data)| matches!(data, Data::Text(_))).count();
    let bytes = lines.len() * NAMED_BYTES + strings * STRING_BYTES;
    let head = KstatHead { kind: TYPE_NAMED, flags: FLAG_VIRTUAL, count: lines.len(), bytes };
    let mut text = format!("{:<31} {:<4} data\n", "name", "type");
    for (name, data) in lines {
        // A string takes whatever it is given.
        _ = writeln!(text, "{name:<31} {:<4} {data}", data.type_number());
    }
    (head, text)
}

/// The two lines of an io kstat.
pub(crate) fn io(columns: &[(&str, u64)]) -> (KstatHead, String) {
    let mut text = String::new();
    for (name, _) in columns {
        _ = write!(text, "{name:<8} ");
    }
    end_line(&mut text);
    for (_, number) in columns {
        _ = write!(text, "{number:<8} ");
    }
    end_line(&mut text);
    (KstatHead { kind: TYPE_IO, flags: 0, count: 1, bytes: IO_BYTES }, text)
}

/// Ends a line after its last column, which has its width but no space behind it.
fn end_line(text: &mut String) {
    text.pop();
    text.push('\n');
}
