//! The command line: it parses the arguments into values that are within their limits.
//!
//! | file | what it holds |
//! |---|---|
//! | `arguments` | the commands, and the options of each with their help, defaults and limits |
//! | `values` | what an option takes: how a word becomes a number, a time or a choice |
//! | `parse` | from the words of the command line to a command, or to the text of the help or of a usage error |

mod arguments;
mod parse;
#[cfg(test)]
mod tests;
mod values;

pub use arguments::{
    Arguments, Command, DEFAULT_PORT, DemoArguments, ListenArguments, SERVE_GROUPS, SendArguments, ServeArguments,
};
pub use parse::EarlyExit;
pub use values::{AllowedOrigin, Colour, Count, Seconds};
