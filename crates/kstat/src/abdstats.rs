//! `abdstats`: buffers that consist of several pieces (OpenZFS: `module/os/linux/zfs/abd_os.c`). A buffer of ours is one
//! piece, so these figures are 0. The number of buffers (`linear_cnt`) and their bytes (`linear_data_size`) are left out,
//! because nothing counts the buffers.

use crate::file::KstatFile;
use crate::format::Data;

const NAMES: &[&str] = &[
    "struct_size",
    "scatter_cnt",
    "scatter_data_size",
    "scatter_chunk_waste",
    "scatter_order_0",
    "scatter_order_1",
    "scatter_order_2",
    "scatter_order_3",
    "scatter_order_4",
    "scatter_order_5",
    "scatter_order_6",
    "scatter_order_7",
    "scatter_order_8",
    "scatter_order_9",
    "scatter_order_10",
    "scatter_page_multi_chunk",
    "scatter_page_multi_zone",
    "scatter_page_alloc_retry",
    "scatter_sg_table_retry",
];

/// The file.
pub(crate) fn file() -> KstatFile {
    let lines: Vec<_> = NAMES.iter().map(|name| (*name, Data::Number(0))).collect();
    KstatFile::named(None, "abdstats", &lines)
}
