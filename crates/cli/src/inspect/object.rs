//! Any object of a dataset, and any block.

use super::report::{Report, dump};
use dmu::zap::{Cursor, Zap, ZapValue};
use dmu::{DmuError, Dnode, Objset};
use engine::refusal;
use ondisk::describe::Describe;
use ondisk::dsl::{DslDatasetPhys, DslDirPhys};
use ondisk::{Dirent, ObjectType, SpaceMapPhys};
use pool::PoolError;
use std::sync::Arc;
use units::{BlockId, ObjectId};

/// Entries of a ZAP that are shown.
const ENTRIES_MAX: usize = 10_000;
/// Bytes of a block that are shown.
const SHOWN_BYTES: usize = 4 << 10;

/// A dnode with its record, and what is in it if it is a ZAP.
pub async fn object(objset: &Arc<Objset>, object: ObjectId) -> Result<Report, PoolError> {
    let dnode = objset.hold(object).await?;
    let mut report = Report::default();
    report.value("object", object.get(), "its number");
    report.section("dnode", "the object itself", Report::of_fields(&dnode.synced_image().describe()));
    if let Some(record) = record(&dnode) {
        report.section("bonus", "the object's own record", record);
    }
    if is_zap(dnode.object_type()) {
        let is_directory = dnode.object_type() == ObjectType::DIRECTORY_CONTENTS;
        let entries = match entries(&dnode, is_directory).await {
            Ok(entries) => entries,
            Err(error) => damage(&error),
        };
        report.section("entries", "names and values", entries);
    }
    Ok(report)
}

fn damage(error: &dyn std::error::Error) -> Report {
    let mut report = Report::default();
    report.value("error", refusal::chain(error), "cannot be read");
    report
}

fn record(dnode: &Dnode) -> Option<Report> {
    let bonus = dnode.bonus();
    let fields = match dnode.bonus_type() {
        ObjectType::DSL_DIR => DslDirPhys::decode(&bonus).ok()?.describe(),
        ObjectType::DSL_DATASET => DslDatasetPhys::decode(&bonus).ok()?.describe(),
        ObjectType::SPACE_MAP_HEADER => SpaceMapPhys::decode(&bonus).ok()?.describe(),
        _ if bonus.is_empty() => return None,
        _ => {
            let mut report = Report::default();
            report.value("bytes", format!("\n{}", dump(&bonus)), "");
            return Some(report);
        }
    };
    Some(Report::of_fields(&fields))
}

fn is_zap(kind: ObjectType) -> bool {
    let swap = kind.props().map(|props| props.byte_swap);
    swap == Some(ondisk::ByteSwap::Zap)
}

async fn entries(dnode: &Arc<Dnode>, is_directory: bool) -> Result<Report, dmu::zap::ZapError> {
    let zap = Zap::open(Arc::clone(dnode)).await?;
    let mut report = Report::default();
    for entry in zap.entries(Cursor::START, ENTRIES_MAX).await? {
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        match (&entry.value, is_directory) {
            (ZapValue::U64(words), true) if words.len() == 1 => {
                let entry = Dirent::from_word(words[0]);
                report.value(name, format!("object {}, type {}", entry.object, entry.file_type), "");
            }
            (value, _) => match (value.as_u64(), value.as_text()) {
                (Some(number), _) => report.value(name, number, ""),
                (None, Some(text)) => report.value(name, text, ""),
                (None, None) => report.value(name, format!("{value:?}"), ""),
            },
        }
    }
    Ok(report)
}

/// One block of an object: the pointer to it, and the first bytes of what it holds.
pub async fn block(objset: &Arc<Objset>, object: ObjectId, block: BlockId) -> Result<Report, DmuError> {
    let dnode = objset.hold(object).await?;
    let bp = dnode.synced_blkptr(block).await?;
    let mut report = Report::default();
    report.section("blkptr", "points at the block", Report::of_fields(&bp.describe()));
    if !bp.is_hole() {
        let bytes = dnode.read_block(block).await?;
        let shown = bytes.get(..SHOWN_BYTES).unwrap_or(&bytes);
        report.value("bytes", format!("\n{}", dump(shown)), "verified and unpacked");
    }
    Ok(report)
}
