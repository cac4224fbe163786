//! How many records of which type a stream has.

use ondisk::send::{DrrType, RECORD_BYTES};

/// Records and bytes of payload, by type. Shown as `zstream dump` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    records: [u64; DrrType::ALL.len()],
    payload_bytes: [u64; DrrType::ALL.len()],
}

/// The types that `zstream dump` shows, in its order. The others count in the totals.
const SHOWN: [DrrType; 9] = [
    DrrType::Begin,
    DrrType::End,
    DrrType::Object,
    DrrType::Freeobjects,
    DrrType::Write,
    DrrType::WriteByref,
    DrrType::WriteEmbedded,
    DrrType::Free,
    DrrType::Spill,
];

impl Summary {
    /// Counts a record with so many bytes of payload.
    pub fn count(&mut self, drr_type: DrrType, payload_bytes: u64) {
        let at = drr_type.raw() as usize;
        self.records[at] += 1;
        self.payload_bytes[at] += payload_bytes;
    }

    /// Records of a type.
    #[must_use]
    pub fn records(&self, drr_type: DrrType) -> u64 {
        self.records[drr_type.raw() as usize]
    }

    /// Bytes of their payloads.
    #[must_use]
    pub fn payload_bytes(&self, drr_type: DrrType) -> u64 {
        self.payload_bytes[drr_type.raw() as usize]
    }

    /// Records of all types.
    #[must_use]
    pub fn records_in_all(&self) -> u64 {
        self.records.iter().sum()
    }

    /// Bytes of all records with their payloads: of the stream.
    #[must_use]
    pub fn stream_bytes(&self) -> u64 {
        self.header_bytes() + self.payload_bytes_in_all()
    }

    fn header_bytes(&self) -> u64 {
        self.records_in_all() * RECORD_BYTES as u64
    }

    fn payload_bytes_in_all(&self) -> u64 {
        self.payload_bytes.iter().sum()
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "SUMMARY:")?;
        for drr_type in SHOWN {
            let (records, bytes) = (self.records(drr_type), self.payload_bytes(drr_type));
            writeln!(f, "\tTotal DRR_{drr_type} records = {records} ({bytes} bytes)")?;
        }
        writeln!(f, "\tTotal records = {}", self.records_in_all())?;
        let totals = [
            ("payload size", self.payload_bytes_in_all()),
            ("header overhead", self.header_bytes()),
            ("stream length", self.stream_bytes()),
        ];
        for (what, bytes) in totals {
            writeln!(f, "\tTotal {what} = {bytes} ({bytes:#x})")?;
        }
        Ok(())
    }
}
