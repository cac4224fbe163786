mod collisions;
mod forms;
mod golden;
mod hostile;
mod iteration;
mod memory;
mod model;
mod words;
