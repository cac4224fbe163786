//! Runs the real zdb and GRUB beside ours (development only).
pub mod golden;
pub mod grub;
pub mod zdb;
