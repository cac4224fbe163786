//! Tests of whole trees, on devices in memory.

mod deadman;
mod elsewhere;
mod golden;
mod mirror;
mod nested;
mod probe;
mod rescue;
mod shapes;
mod sizes;
mod survivor;
pub(crate) mod tree;
pub(crate) mod world;
