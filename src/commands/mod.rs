//! The commands of the program.

pub mod demo;
pub mod listen;
mod print;
pub mod serve;
