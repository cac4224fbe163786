use bytemuck::bytes_of;
use env::{BufSlice, Durability, IoBuf, RamDevice};
use futures::executor::block_on;
use gpt_disk_types::{GptPartitionType, LbaLe, U32Le};

use super::*;

const DISK_BYTES: u64 = 8 << 20;
const ENTRIES: usize = 128;

/// A table in sectors of `sector` bytes, with right checksums after `change`.
struct Table {
    sector: u64,
    header: GptHeader,
    entries: Vec<GptPartitionEntry>,
}

impl Table {
    fn new(sector: u64) -> Self {
        let mut header = GptHeader { my_lba: LbaLe::from_u64(1), ..GptHeader::default() };
        header.partition_entry_lba = LbaLe::from_u64(2);
        header.number_of_partition_entries = U32Le::from_u32(ENTRIES as u32);
        Self { sector, header, entries: vec![GptPartitionEntry::default(); ENTRIES] }
    }

    fn partition(mut self, slot: usize, kind: Guid, (start, end): (u64, u64)) -> Self {
        let entry = &mut self.entries[slot];
        entry.partition_type_guid = GptPartitionType(kind);
        entry.starting_lba = LbaLe::from_u64(start / self.sector);
        entry.ending_lba = LbaLe::from_u64((end / self.sector).wrapping_sub(1));
        self
    }

    fn entries_bytes(&self) -> Vec<u8> {
        self.entries.iter().flat_map(|entry| bytes_of(entry).to_vec()).collect()
    }

    fn sealed(mut self) -> Self {
        self.header.partition_entry_array_crc32 = crc32(&self.entries_bytes());
        self.header.update_header_crc32();
        self
    }

    fn write_to(&self, disk: &Arc<dyn Device>) {
        self.write_at(disk, self.sector, 2 * self.sector);
    }

    fn write_at(&self, disk: &Arc<dyn Device>, header_at: u64, entries_at: u64) {
        for (at, bytes) in [(header_at, bytes_of(&self.header).to_vec()), (entries_at, self.entries_bytes())]
        {
            let buf = IoBuf::copy_of(&bytes).resized(bytes.len().next_multiple_of(self.sector as usize));
            let write = disk.write(LeafOffset::new(at), vec![BufSlice::from(buf)], Durability::Cached);
            block_on(write).expect("written");
        }
    }
}

fn disk() -> Arc<dyn Device> {
    Arc::new(RamDevice::new(DISK_BYTES))
}

fn found(disk: &Arc<dyn Device>) -> Vec<(u64, u64)> {
    block_on(zfs_partitions(disk)).into_iter().map(|range| (range.start, range.end)).collect()
}

const PLACE: (u64, u64) = (1 << 20, 6 << 20);

#[test]
fn the_partition_of_zfs_is_found_in_either_sector_size() {
    for sector in SECTORS {
        for kind in ZFS_TYPES {
            let disk = disk();
            Table::new(sector).partition(0, kind, PLACE).sealed().write_to(&disk);
            assert_eq!(found(&disk), [PLACE], "sectors of {sector}");
        }
    }
    assert_eq!(found(&disk()), [], "no table");
}

#[test]
fn the_table_at_the_end_serves_when_the_first_is_damaged() {
    let disk = disk();
    let mut table = Table::new(512).partition(0, ZFS_TYPES[0], PLACE);
    table.header.my_lba = LbaLe::from_u64(DISK_BYTES / 512 - 1);
    table.header.partition_entry_lba = LbaLe::from_u64(DISK_BYTES / 512 - 33);
    table.sealed().write_at(&disk, DISK_BYTES - 512, DISK_BYTES - 33 * 512);
    assert_eq!(found(&disk), [PLACE]);
}

#[test]
fn partitions_of_others_are_left_alone() {
    let disk = disk();
    let efi = GptPartitionType::EFI_SYSTEM.0;
    let table = Table::new(512).partition(0, efi, PLACE).partition(1, ZFS_TYPES[0], (6 << 20, 7 << 20));
    table.sealed().write_to(&disk);
    assert_eq!(found(&disk), [(6 << 20, 7 << 20)]);
}

#[test]
fn no_table_whatever_its_bytes_leads_off_the_disk() {
    let zfs = ZFS_TYPES[0];
    let ranges = [
        // Beyond the end, backwards, of no length, at the very start, far beyond numbers.
        (1 << 20, DISK_BYTES + 512),
        (2 << 20, 1 << 20),
        (0, 1 << 20),
        (1 << 20, 0),
        (u64::MAX / 512 * 512, u64::MAX),
    ];
    for range in ranges {
        let disk = disk();
        Table::new(512).partition(0, zfs, range).sealed().write_to(&disk);
        assert_eq!(found(&disk), [], "{range:?}");
    }
    let changes: [fn(&mut GptHeader); 8] = [
        |header| header.partition_entry_lba = LbaLe::from_u64(u64::MAX),
        |header| header.partition_entry_lba = LbaLe::from_u64(DISK_BYTES / 512 - 1),
        |header| header.number_of_partition_entries = U32Le::from_u32(u32::MAX),
        |header| header.size_of_partition_entry = U32Le::from_u32(0),
        |header| header.size_of_partition_entry = U32Le::from_u32(u32::MAX),
        |header| header.my_lba = LbaLe::from_u64(u64::MAX),
        |header| header.signature.0.0[0] ^= 1,
        |header| header.number_of_partition_entries = U32Le::from_u32(127),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let disk = disk();
        let mut table = Table::new(512).partition(0, zfs, PLACE).sealed();
        change(&mut table.header);
        table.header.update_header_crc32();
        table.write_to(&disk);
        assert_eq!(found(&disk), [], "change {n}");
    }
}

#[test]
fn a_flipped_bit_of_the_table_hides_it() {
    for at in [512, 512 + 16, 512 + 40, 512 + 91, 1024, 1024 + 32, 1024 + 127] {
        let disk = disk();
        Table::new(512).partition(0, ZFS_TYPES[0], PLACE).sealed().write_to(&disk);
        assert_eq!(found(&disk), [PLACE]);
        let sector = LeafOffset::new(at / 512 * 512);
        let mut bytes = block_on(disk.read(sector, 512)).expect("read");
        bytes[at as usize % 512] ^= 4;
        block_on(disk.write(sector, vec![bytes.into()], Durability::Cached)).expect("written");
        assert_eq!(found(&disk), [], "byte {at}");
    }
}
