//! Structures, field by field, in words: for tools that show what lies on a disk.

use crate::dsl::{DslDatasetPhys, DslDirPhys, used};
use crate::{Blkptr, ByteOrder, DnodeImage, SpaceMapPhys, UberblockPhys};

/// A field of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub value: FieldValue,
    /// What that means, in a short phrase.
    pub about: &'static str,
}

/// What a field holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldValue {
    /// A number.
    Number(u64),
    /// Anything else, as text.
    Text(String),
    /// A structure within the structure.
    Fields(Vec<Field>),
}

impl From<u64> for FieldValue {
    fn from(number: u64) -> Self {
        Self::Number(number)
    }
}

impl From<String> for FieldValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// A structure that can be taken apart for people.
pub trait Describe {
    /// Its fields, in the order in which they lie on disk.
    fn describe(&self) -> Vec<Field>;
}

pub(crate) fn field(name: &'static str, value: impl Into<FieldValue>, about: &'static str) -> Field {
    Field { name, value: value.into(), about }
}

pub(crate) fn nested(name: &'static str, of: &impl Describe, about: &'static str) -> Field {
    Field { name, value: FieldValue::Fields(of.describe()), about }
}

impl Describe for UberblockPhys {
    fn describe(&self) -> Vec<Field> {
        let mut fields = vec![
            field(
                "magic",
                format!("{:#x}", self.magic.get()),
                "says that this is an uberblock, and in which byte order",
            ),
            field("version", self.version.get(), "version of the pool; 5000: feature flags decide"),
            field("txg", self.txg.get(), "transaction group whose sync wrote it"),
            field("guid_sum", self.guid_sum.get(), "sum of all vdevs' guids: tells that one is missing"),
            field("timestamp", self.timestamp.get(), "when it was written: seconds since 1970, UTC"),
            nested("rootbp", &self.rootbp, "leads to the meta-objset, and so to everything"),
            field(
                "software_version",
                self.software_version.get(),
                "highest pool version that the writer knew",
            ),
        ];
        if let Some(mmp) = self.mmp() {
            let shown = format!(
                "{:?} ms, sequence {:?}, fails after {:?}",
                mmp.interval_ms, mmp.sequence, mmp.fail_intervals
            );
            fields.push(field(
                "mmp_delay",
                self.mmp_delay.get(),
                "nanoseconds between heartbeats of multihost; 0 when off",
            ));
            fields.push(field("mmp_config", shown, "how another host can tell that this one is alive"));
        }
        fields.push(field(
            "checkpoint_txg",
            self.checkpoint_txg.get(),
            "group of the checkpoint, in its own uberblock; else 0",
        ));
        fields.push(field(
            "raidz_reflow",
            self.raidz_reflow.get(),
            "how far a raidz expansion came; 0 for none",
        ));
        fields
    }
}

impl Describe for Blkptr {
    fn describe(&self) -> Vec<Field> {
        let kind = self.object_type().props().map_or("unknown", |props| props.name);
        let name =
            |result: Result<String, crate::OndiskError>| result.unwrap_or_else(|error| error.to_string());
        let checksum = name(self.checksum_kind().map(|kind| format!("{kind:?}")));
        let compression = name(self.compression().map(|kind| format!("{kind:?}")));
        let shape = match (self.is_hole(), self.is_embedded(), self.is_gang()) {
            (true, _, _) => "hole",
            (_, true, _) => "embedded",
            (_, _, true) => "gang",
            _ => "block",
        };
        let mut fields = vec![
            field(
                "shape",
                shape.to_owned(),
                "a block, one scattered in pieces (gang), data in the pointer itself, or nothing",
            ),
            field("type", kind.to_owned(), "what the block holds, at level 0"),
            field(
                "level",
                u64::from(self.level().get()),
                "height in the tree; 0 is data, above it are pointers",
            ),
            field("lsize", self.lsize().get(), "bytes of the contents"),
            field("psize", self.psize().get(), "bytes on disk, after compression"),
            field("birth", self.birth().get(), "group in which the contents came to be"),
            field("physical_birth", self.physical_birth().get(), "group in which this copy was written"),
            field("checksum_kind", checksum, "how the bytes are verified"),
            field("compression", compression, "how they are packed"),
            field("fill", self.fill(), "blocks with data at and below this one; for dnodes, objects"),
            field("dedup", u64::from(self.dedup()), "1: the block is in the table of duplicates"),
            field("crypt", u64::from(self.uses_crypt()), "1: encrypted or authenticated with a key"),
            field(
                "byte_order",
                if self.byte_order() == ByteOrder::Big { "big" } else { "little" }.to_owned(),
                "of the machine that wrote it",
            ),
        ];
        if !self.is_hole() && !self.is_embedded() {
            for (dva, name) in self.dvas().zip(["dva0", "dva1", "dva2"]) {
                fields.push(field(name, dva.to_string(), "where a copy lies: vdev, offset, allocated size"));
            }
            let words = self.checksum().map(|word| format!("{word:x}")).join(":");
            fields.push(field("checksum", words, "what the bytes must come to"));
        }
        fields
    }
}

impl Describe for DnodeImage {
    fn describe(&self) -> Vec<Field> {
        let kind = |kind: crate::ObjectType| kind.props().map_or("unknown", |props| props.name).to_owned();
        let mut fields = vec![
            field("type", kind(self.object_type), "what the object is"),
            field(
                "levels",
                u64::from(self.levels),
                "height of its tree of blocks; 1: the dnode points at data",
            ),
            field(
                "indirect_shift",
                u64::from(self.indirect_shift),
                "base-2 logarithm of a block of pointers",
            ),
            field("data_block_bytes", self.data_block_bytes(), "size of a block of data"),
            field("max_block", self.max_block_id.get(), "highest block ever written"),
            field("used_bytes", self.used_bytes, "allocated on disk, with copies and blocks of pointers"),
            field("slots", u64::from(self.extra_slots) + 1, "dnode slots of 512 bytes that it takes"),
            field("checksum", format!("{:?}", self.checksum), "function of its own, or inherited"),
            field("compression", format!("{:?}", self.compression), "function of its own, or inherited"),
            field("flags", u64::from(self.flags), "how space is counted, and whether there is a spill block"),
            field("bonus_type", kind(self.bonus_type), "what the object's own record is"),
            field("bonus_bytes", self.bonus.len() as u64, "length of that record"),
        ];
        for (bp, name) in self.blkptrs.iter().zip(["blkptr0", "blkptr1", "blkptr2"]) {
            fields.push(nested(name, bp, "a root of its tree of blocks"));
        }
        if let Some(spill) = &self.spill {
            fields.push(nested("spill", spill, "continues the record"));
        }
        fields
    }
}

impl Describe for DslDirPhys {
    fn describe(&self) -> Vec<Field> {
        let part = |kind: usize| self.used_breakdown.get(kind).map_or(0, |part| part.get());
        vec![
            field("creation_time", self.creation_time.get(), "seconds since 1970, UTC"),
            field("head_dataset", self.head_dataset.get(), "object of the dataset that changes"),
            field("parent", self.parent.get(), "object of the dir above; 0 at the root"),
            field("origin", self.origin.get(), "object of the snapshot it was cloned from; 0 for none"),
            field("child_dirs", self.child_dirs.get(), "ZAP of the dirs below, by name"),
            field("used_bytes", self.used_bytes.get(), "space that it and all below it take"),
            field("compressed_bytes", self.compressed_bytes.get(), "the same without copies and parity"),
            field("uncompressed_bytes", self.uncompressed_bytes.get(), "the same before compression"),
            field("quota", self.quota.get(), "most that it may take; 0 for no limit"),
            field("reserved", self.reserved.get(), "kept free for it"),
            field("props", self.props.get(), "ZAP of properties set here"),
            field("permissions", self.permissions.get(), "ZAP of delegated permissions"),
            field("flags", self.flags.get(), "1: the following parts are kept"),
            field("used_head", part(used::HEAD), "space of the head"),
            field("used_snapshots", part(used::SNAP), "space that only snapshots hold"),
            field("used_children", part(used::CHILD), "space of the dirs below"),
            field(
                "used_child_reservations",
                part(used::CHILD_RESERVATION),
                "reserved below, and not yet used",
            ),
            field(
                "used_refreservation",
                part(used::REFRESERVATION),
                "reserved for the head, and not yet used",
            ),
            field("clones", self.clones.get(), "ZAP of the clones of its snapshots"),
        ]
    }
}

impl Describe for DslDatasetPhys {
    fn describe(&self) -> Vec<Field> {
        vec![
            field("dir", self.dir.get(), "object of its dir"),
            field("prev_snapshot", self.prev_snapshot.get(), "object of the snapshot before"),
            field("prev_snapshot_txg", self.prev_snapshot_txg.get(), "group in which that was taken"),
            field("next_snapshot", self.next_snapshot.get(), "object of the snapshot after, or the head"),
            field("snapshot_names", self.snapshot_names.get(), "ZAP of its snapshots, by name; heads only"),
            field("children", self.children.get(), "of a snapshot: datasets that begin from it; 0 in a head"),
            field("creation_time", self.creation_time.get(), "seconds since 1970, UTC"),
            field("creation_txg", self.creation_txg.get(), "group in which it was made"),
            field("deadlist", self.deadlist.get(), "blocks that the snapshot before still holds"),
            field("referenced_bytes", self.referenced_bytes.get(), "space of all its blocks"),
            field("compressed_bytes", self.compressed_bytes.get(), "the same without copies and parity"),
            field("uncompressed_bytes", self.uncompressed_bytes.get(), "the same before compression"),
            field("unique_bytes", self.unique_bytes.get(), "space of blocks that nobody else has"),
            field("fsid_guid", self.fsid_guid.get(), "identifies it to NFS"),
            field("guid", self.guid.get(), "identifies it everywhere"),
            field("flags", self.flags.get(), "inconsistent, deferred destroy and the like"),
            nested("bp", &self.bp, "leads to its objset"),
            field("next_clones", self.next_clones.get(), "ZAP of datasets that begin from it"),
            field("props", self.props.get(), "ZAP of properties of a snapshot"),
            field("user_refs", self.user_refs.get(), "ZAP of the holds on it"),
        ]
    }
}

impl Describe for SpaceMapPhys {
    fn describe(&self) -> Vec<Field> {
        vec![
            field("object", self.object.get(), "its own number; no longer used"),
            field("length", self.length.get(), "bytes of entries"),
            field(
                "allocated",
                u64::try_from(self.allocated.get())
                    .map_or_else(|_| self.allocated.get().to_string().into(), FieldValue::Number),
                "bytes in use, as the entries add up",
            ),
        ]
    }
}

/// What a key of a pool's or vdev's configuration means.
#[must_use]
pub fn about_config(key: &str) -> &'static str {
    match key {
        "version" => "version of the pool; 5000: feature flags decide",
        "name" => "the pool's name",
        "state" => "0 in use, 1 exported, 2 destroyed, 3 spare, 4 read cache",
        "txg" => "transaction group that wrote this",
        "pool_guid" => "identifies the pool",
        "errata" => "number of a known defect of what wrote the pool; 0 for none",
        "hostid" => "who had it last, as a number",
        "hostname" => "who had it last",
        "top_guid" => "the top-level vdev that this device is part of",
        "guid" => "identifies this vdev",
        "vdev_children" => "how many top-level vdevs the pool has",
        "vdev_tree" => "the top-level vdev, down to its devices",
        "type" => "kind of vdev",
        "id" => "its place among its siblings",
        "path" => "where the device was last found",
        "devid" => "the device's name of its own",
        "phys_path" => "the device's place in the machine",
        "whole_disk" => "1: partitioned by the pool's software",
        "metaslab_array" => "object that lists its space maps",
        "metaslab_shift" => "base-2 logarithm of a metaslab",
        "ashift" => "base-2 logarithm of a sector",
        "asize" => "bytes that can be allocated",
        "is_log" => "1: for the intent log only",
        "nparity" => "devices that may be lost",
        "create_txg" => "group in which it was added",
        "children" => "vdevs below",
        "features_for_read" => "features without which not even the meta-objset can be read",
        "com.delphix:vdev_zap_top" | "com.delphix:vdev_zap_leaf" | "vdev_zap_root" => {
            "object for properties of its own"
        }
        "alloc_bias" | "alloc_class" => "kind of blocks that go there",
        "DTL" => "object that lists txgs it missed",
        "comment" => "the administrator's remark",
        "compatibility" => "which features may be enabled",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    /// Names of fields, those within fields too.
    fn names(fields: &[Field]) -> Vec<&'static str> {
        let below = |field: &Field| match &field.value {
            FieldValue::Fields(below) => names(below),
            _ => Vec::new(),
        };
        fields.iter().flat_map(|field| [vec![field.name], below(field)].concat()).collect()
    }

    #[test]
    fn any_bytes_can_be_described() {
        for byte in 0..=255_u8 {
            let bp = Blkptr::decode(&[byte; 128]).unwrap();
            assert!(names(&bp.describe()).contains(&"lsize"));
            let dataset = DslDatasetPhys::decode(&[byte; 320]).unwrap();
            assert!(names(&dataset.describe()).contains(&"guid"));
            let map = SpaceMapPhys::decode(&[byte; 320]).unwrap();
            assert_eq!(map.describe().len(), 3);
        }
        assert!(names(&UberblockPhys::new_zeroed().describe()).contains(&"rootbp"));
    }

    #[test]
    fn every_field_is_explained() {
        let fields = [UberblockPhys::new_zeroed().describe(), Blkptr::HOLE.describe()].concat();
        assert!(fields.iter().all(|field| !field.about.is_empty()));
    }
}
