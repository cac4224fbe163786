//! Pools of OpenZFS, damaged, and what a rescue brings back of them.
#![forbid(unsafe_code)]

mod damage;
mod found;
mod labels;
mod resumed;
mod told;
mod world;
