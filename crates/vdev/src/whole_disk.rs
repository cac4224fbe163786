//! Whole disks: finding the partition that OpenZFS made for itself.
//!
//! ```text
//!   MBR │ header │ entries … │ 1 MiB: partition 1, the vdev … │ 9: 8 MiB, nothing │ entries │ header
//!     0      1        2                                                                     last sector
//! ```
//! Given a whole disk, OpenZFS on Linux writes a partition table (GPT) on it and uses the first
//! partition; illumos and FreeBSD do alike. An image of such a disk, or the disk by the name of the
//! whole, has its labels there and none at its own ends.
//!
//! The table is foreign bytes: it is believed only when header and entries have their checksums,
//! and of a partition only what lies on the disk. The copy at the disk's end serves when the first
//! is damaged. (test: `no_table_whatever_its_bytes_leads_off_the_disk`)

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytemuck::pod_read_unaligned;
use env::{Device, Env, Part};
use futures::future::{Either, select};
use gpt_disk_types::{Crc32, GptHeader, GptPartitionEntry, Guid, guid};
use units::LeafOffset;

use crate::label::LeafLabels;

#[cfg(test)]
mod tests;

/// What OpenZFS on Linux and illumos marks its partition with, and what FreeBSD does.
const ZFS_TYPES: [Guid; 2] =
    [guid!("6a898cc3-1dd2-11b2-99a6-080020736631"), guid!("516e7cba-6ecf-11d6-8ff8-00022d09712b")];
/// Sector sizes a table may be in: an image does not tell which its disk had.
const SECTORS: [u64; 2] = [512, 4096];
/// Bytes that the entries may take; 16 KiB are usual.
const ENTRIES_MAX_BYTES: u64 = 256 << 10;
const ENTRY_BYTES: usize = size_of::<GptPartitionEntry>();
const HEADER_BYTES: usize = size_of::<GptHeader>();

/// How long a device may take to tell who it is. A disk that has to spin up needs ten seconds or so.
const LABELS_WITHIN: Duration = Duration::from_secs(30);

/// The vdev on a device, and its labels: the device itself, or the partition of it that has labels.
pub(crate) async fn vdev_on(device: Arc<dyn Device>) -> (Arc<dyn Device>, LeafLabels) {
    let labels = LeafLabels::read(&device).await;
    // A table would lie where the first two labels are; those at the end may be a former vdev's.
    if labels.configs[..2].iter().any(Option::is_some) {
        return (device, labels);
    }
    for range in zfs_partitions(&device).await {
        let Some(part) = Part::new(Arc::clone(&device), range) else { continue };
        let part: Arc<dyn Device> = Arc::new(part);
        let found = LeafLabels::read(&part).await;
        if found.config(None).is_some() {
            return (part, found);
        }
    }
    (device, labels)
}

/// The same of a device that may never answer: nothing if it has not told within [`LABELS_WITHIN`].
pub(crate) async fn vdev_in_time(
    env: &Arc<dyn Env>,
    device: Arc<dyn Device>,
) -> Option<(Arc<dyn Device>, LeafLabels)> {
    match select(Box::pin(vdev_on(device)), env.sleep(LABELS_WITHIN)).await {
        Either::Left((found, _)) => Some(found),
        Either::Right(_) => None,
    }
}

/// Where partitions of ZFS lie on a device, in bytes, if it has a partition table.
pub(crate) async fn zfs_partitions(device: &Arc<dyn Device>) -> Vec<Range<u64>> {
    let size = device.info().size_bytes;
    for sector in SECTORS {
        for header_at in [Some(sector), size.checked_sub(sector).map(|end| end / sector * sector)] {
            let Some(header_at) = header_at else { continue };
            if let Some(partitions) = read_table(device, sector, header_at).await {
                return partitions;
            }
        }
    }
    Vec::new()
}

/// The ZFS partitions of the table whose header is at `header_at`; `None` when there is no valid one.
async fn read_table(device: &Arc<dyn Device>, sector: u64, header_at: u64) -> Option<Vec<Range<u64>>> {
    let size = device.info().size_bytes;
    let sector_len = usize::try_from(sector).ok()?;
    let block = device.read(LeafOffset::new(header_at), sector_len).await.ok()?;
    let header: GptHeader = pod_read_unaligned(block.get(..HEADER_BYTES)?);
    let is_ours = header.is_signature_valid()
        && header.header_crc32 == header.calculate_header_crc32()
        && header.my_lba.to_u64().checked_mul(sector) == Some(header_at);
    if !is_ours {
        return None;
    }
    let entry_bytes = usize::try_from(header.size_of_partition_entry.to_u32()).ok()?;
    let entries_bytes =
        u64::from(header.number_of_partition_entries.to_u32()).checked_mul(entry_bytes as u64)?;
    if entry_bytes < ENTRY_BYTES || entries_bytes > ENTRIES_MAX_BYTES {
        return None;
    }
    let entries_at = header.partition_entry_lba.to_u64().checked_mul(sector)?;
    let whole = usize::try_from(entries_bytes.next_multiple_of(sector)).ok()?;
    let entries = device.read(LeafOffset::new(entries_at), whole).await.ok()?;
    let entries = entries.get(..usize::try_from(entries_bytes).ok()?)?;
    if crc32(entries) != header.partition_entry_array_crc32 {
        return None;
    }
    let found = entries.chunks_exact(entry_bytes).filter_map(|bytes| {
        let entry: GptPartitionEntry = pod_read_unaligned(bytes.get(..ENTRY_BYTES)?);
        zfs_range(&entry, sector, size)
    });
    Some(found.collect())
}

/// Where a partition lies, if it is ZFS's and on the disk.
fn zfs_range(entry: &GptPartitionEntry, sector: u64, size: u64) -> Option<Range<u64>> {
    let kind = entry.partition_type_guid.0;
    let start = entry.starting_lba.to_u64().checked_mul(sector)?;
    let end = entry.ending_lba.to_u64().checked_add(1)?.checked_mul(sector)?;
    (ZFS_TYPES.contains(&kind) && start > 0 && start < end && end <= size).then_some(start..end)
}

fn crc32(bytes: &[u8]) -> Crc32 {
    let crc = gpt_disk_types::crc::Crc::<u32>::new(&Crc32::ALGORITHM);
    Crc32(gpt_disk_types::U32Le::from_u32(crc.checksum(bytes)))
}
