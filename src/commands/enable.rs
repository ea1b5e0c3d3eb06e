//! `adapter-gateway enable` and `disable`: switch the REST API on and off in the user settings.

use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind, Write, stdout};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use super::serve::settings_path;
use crate::gateway::Failure;
use crate::settings::{self, MAX_FILE_BYTES};
use crate::sys::draft::{Draft, PRIVATE_MODE};
use crate::sys::secret_file;

/// The mode of a directory that is for its owner alone.
const PRIVATE_DIRECTORY_MODE: u32 = 0o700;

/// How many symbolic links may lead to the settings, as in the kernel.
const MAX_LINKS: usize = 40;

/// Sets `OPEN_REST_API` in the user settings, and a random `TOKEN` where it is switched on and there is none. No other byte of
/// the file changes.
///
/// # Errors
/// Returns the [`Failure`] that says what to write by hand.
pub fn run(path: Option<&PathBuf>, is_open: bool) -> Result<(), Failure> {
    let path = settings_path(path)?;
    let path = std::path::absolute(&path).map_err(Failure::configuration)?;
    let shown = path.display();
    let done = match replace(&path, is_open) {
        Ok(is_changed) => is_changed,
        Err(EditFailure::File(reason)) => return Err(Failure::Configuration(format!("{shown}:{reason}"))),
        Err(EditFailure::System(error)) => {
            let token =
                if is_open { ", and TOKEN = \"...\" with at least 16 characters that nobody can guess" } else { "" };
            let value = if is_open { "True" } else { "False" };
            return Err(Failure::Configuration(format!(
                "{shown}: {error}; nothing is changed. By hand, write OPEN_REST_API = {value}{token}"
            )));
        }
    };
    let text = match (is_open, done) {
        (true, true) => format!(
            "The REST API is switched on in {shown}.\nA gateway that runs with these settings listens within a second. \
             `adapter-gateway serve` starts one, and `adapter-gateway send TOPIC PAYLOAD` posts a message.\n"
        ),
        (true, false) => format!("The REST API was switched on in {shown} already. Nothing is changed.\n"),
        (false, true) => format!(
            "The REST API is switched off in {shown}.\nA gateway that runs with these settings closes its port within a \
             second. `adapter-gateway enable` switches it on again, with the same token.\n"
        ),
        (false, false) => format!("The REST API was switched off in {shown} already. Nothing is changed.\n"),
    };
    // The reader may have closed the pipe, and the file is as asked for.
    let _ = stdout().write_all(text.as_bytes());
    Ok(())
}

/// Why the settings stay as they are.
enum EditFailure {
    /// The place in the file, and what is wrong there.
    File(String),
    /// The error of the system.
    System(io::Error),
}

impl From<io::Error> for EditFailure {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Replaces the file as a whole, behind the links that lead to it. Returns whether it says something else now.
fn replace(path: &Path, is_open: bool) -> Result<bool, EditFailure> {
    let file = behind_links(path)?;
    let (metadata, source) = match secret_file::read(&file, MAX_FILE_BYTES) {
        Ok((metadata, source)) => (Some(metadata), source),
        Err(error) if error.kind() == ErrorKind::NotFound => (None, Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let token = settings::random_hex().map_err(io::Error::from)?;
    let edited =
        settings::with_access(&source, is_open, &token).map_err(|fault| EditFailure::File(fault.to_string()))?;
    let Some(edited) = edited else { return Ok(false) };
    if let Some(directory) = file.parent().filter(|_| metadata.is_none()) {
        DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY_MODE).create(directory)?;
    }
    Draft::write(&file, &edited, PRIVATE_MODE, metadata.as_ref())?.publish()?;
    Ok(true)
}

/// Returns the file that a path leads to, which need not exist.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut file = path.to_owned();
    for _ in 0..MAX_LINKS {
        match fs::read_link(&file) {
            // A relative link counts from its directory, and an absolute one replaces all.
            Ok(target) => file = file.parent().map(|directory| directory.join(&target)).unwrap_or(target),
            // It is no link, or there is no file.
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotFound) => return Ok(file),
            Err(error) => return Err(error),
        }
    }
    Err(Errno::LOOP.into())
}
