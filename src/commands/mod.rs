//! The commands of the program: `serve`, `demo`, `listen`, and `enable` with `disable` in a file each, `send` in a
//! folder, and what several of them share.

pub mod demo;
pub mod enable;
mod interrupt;
mod json_text;
pub mod listen;
mod print;
pub mod send;
pub mod serve;
