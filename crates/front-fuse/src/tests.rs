//! A session without a kernel: a socket that keeps messages apart stands in for `/dev/fuse`.

mod copies;
mod flood;
mod hostile;
mod kernel;
mod pages;
mod queues;
mod rights;
mod snapshots;
mod views;
