//! Damaged pools of OpenZFS, and the files that a rescue copies from them.
#![forbid(unsafe_code)]

mod damage;
mod found;
mod labels;
mod resumed;
mod told;
mod world;
