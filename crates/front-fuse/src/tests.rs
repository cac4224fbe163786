//! A session without a kernel: a socket that keeps messages apart stands in for `/dev/fuse`.

mod hostile;
mod kernel;
