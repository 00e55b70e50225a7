//! The simulator: many seeds through the real actors, and the proof that its oracle sees what it is
//! there to see.

mod removals;
mod seeds;
mod tampering;
