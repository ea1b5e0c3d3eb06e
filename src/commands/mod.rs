//! The commands of the program, one file each, and the printer that `listen` and `demo` share.

pub mod demo;
mod json_text;
pub mod listen;
mod print;
pub mod serve;
