//! The log over memory: every order of completion, every failure, every crash.

mod commit;
mod data_place;
mod failure;
mod golden;
mod history;
mod import;
mod leave;
mod loss;
mod numbers;
mod replay;
mod rest;
mod space;
mod tasks;
mod trace;
pub mod world;
