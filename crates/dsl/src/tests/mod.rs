mod bpobj;
mod features;
mod names;
mod props;
mod space;
mod tree;
mod world;
