//! Runs the real zdb and GRUB beside ours, and reads what the OpenZFS kernel module wrote
//! (development only).
pub mod big_endian;
pub mod fuse_disk;
pub mod golden;
pub mod grub;
pub mod image;
pub mod lane;
pub mod loop_disk;
pub mod needs;
pub mod program;
pub mod told;
pub mod zdb;
