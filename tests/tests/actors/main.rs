//! The real actors on paused time, with memory in place of sockets, database and push services: one
//! module for each thing that they do. One binary, because each takes a while to link.

mod backpressure;
mod credentials;
mod drain;
mod faults;
mod figures;
mod forgetting;
mod hiding;
mod logout;
mod nothing_left;
mod operators;
mod pair_faults;
mod presence;
mod push;
mod registration;
mod restart;
mod rpc;
mod sessions;
mod timeline;
mod watchdog;
