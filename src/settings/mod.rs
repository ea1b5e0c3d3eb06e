//! The user settings file, `user_settings.py`, which says whether the REST entrance is open, and for which token.
//!
//! Two names count, `OPEN_REST_API` and `TOKEN`, each by its last assignment at the level of the module. The file is
//! parsed as Python and never executed.
//!
//! Invariant: no type of this folder can hold text of the file, except a [`Token`](crate::terms::token::Token), which
//! does not show itself. An error names a place and a kind of fault, so it may be printed anywhere.

mod access;
mod edit;
mod encoding;
mod fault;
mod file;
mod nesting;
mod python;
#[cfg(test)]
mod tests;

pub use access::{Access, DisabledReason};
pub use edit::with_access;
pub use fault::SettingsFault;
pub(crate) use file::{EMPTY_FOR, FileVersion, SettingsReading, default_path, read};
pub use python::{MAX_FILE_BYTES, parse};
