mod bpobj;
mod features;
mod names;
mod props;
mod rename;
mod space;
mod tree;
mod world;
