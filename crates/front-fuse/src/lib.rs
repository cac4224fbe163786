//! A FUSE mount over the file-system trait
