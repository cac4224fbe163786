//! Operations on a file system on simulated disks, and what crashes leave of them.

mod accounts;
mod basics;
mod capabilities;
mod glimpses;
mod huge;
mod judged;
mod kernel;
mod logged;
mod model;
mod openzfs;
mod parallel;
mod policies;
mod quotas;
mod random;
mod space;
mod unnamed;
mod versions;
mod whole_or_not;
mod world;
mod xattrs;
