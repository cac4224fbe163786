//! What a vdev is called in tables.

pub use control::{NameStyle, find_vdev, vdev_name};
