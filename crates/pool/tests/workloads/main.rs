//! Pools that have seen all kinds of work, judged by `zdb` and against a model.

mod dice;
mod layouts;
mod tree;
mod world;
