//! What commands print: pure functions from typed answers to text.

pub mod advise;
pub mod condition;
pub mod dedup;
pub mod events;
pub mod get;
pub mod history;
pub mod holds;
pub mod import;
pub mod inject;
pub mod iostat;
pub mod json;
pub mod json_pool;
pub mod layout;
pub mod list;
pub mod names;
pub mod page;
pub mod permissions;
pub mod replay_plan;
pub mod scripts;
pub mod sections;
pub mod status;
pub mod table;
#[cfg(test)]
pub mod testing;
pub mod trace;
pub mod userspace;
pub mod vdev_props;
