//! Proposes the two lines that switch the entrance on, for a person to copy.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

use super::python::DisabledReason;

/// The number of random bytes in a token or a name. Nobody can guess 16 of them, and a person can still read them.
const RANDOM_BYTES: usize = 16;

/// Returns the lines to write into a settings file that is disabled for this reason. A token in them is a fresh one, and
/// is in force nowhere until somebody copies it.
///
/// # Errors
/// Returns the error of the kernel if it has no random bytes.
pub fn proposed_lines(reason: DisabledReason) -> Result<String, Errno> {
    const OPEN: &str = "OPEN_REST_API = True";
    if reason.has_token() {
        return Ok(OPEN.into());
    }
    Ok(format!("{OPEN}\nTOKEN = \"{}\"", random_hex()?))
}

/// Returns random bytes in hexadecimal digits, which a URL takes as they are.
///
/// # Errors
/// Returns the error of the kernel if it has no random bytes.
pub fn random_hex() -> Result<String, Errno> {
    let mut bytes = [0; RANDOM_BYTES];
    // The kernel gives up to 256 bytes at once, or none.
    getrandom(&mut bytes, GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Access, parse};

    #[test]
    fn the_proposed_lines_switch_the_entrance_on_each_time_with_another_token() {
        let lines = || proposed_lines(DisabledReason::SettingsAbsent).unwrap();
        let [one, other] = [(); 2].map(|()| parse(lines().as_bytes()).unwrap());
        assert!(matches!((&one, &other), (Access::Open(_), Access::Open(_))));
        assert_ne!(one, other);
    }

    #[test]
    fn a_token_that_exists_is_not_proposed_again() {
        let reason = DisabledReason::NotOpen { other: None, has_token: true };
        assert_eq!(proposed_lines(reason).as_deref(), Ok("OPEN_REST_API = True"));
    }
}
