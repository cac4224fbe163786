//! Tests of the whole way of a block, on devices in memory.

mod blocks;
mod copies;
mod gangs;
mod golden;
mod logs;
mod suspended;
mod world;
