//! Proposes the two lines that switch the entrance on, for a person to copy.

use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// The number of random bytes in a token or a name. Nobody can guess 16 of them, and a person can still read them.
const RANDOM_BYTES: usize = 16;

/// Returns the lines to write into a settings file, with a fresh token. The token is in force nowhere until somebody
/// copies it.
///
/// # Errors
/// Returns the error of the kernel if it has no random bytes.
pub fn proposed_lines() -> Result<String, Errno> {
    Ok(format!("OPEN_REST_API = True\nTOKEN = \"{}\"", random_hex()?))
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
        let [one, other] = [(); 2].map(|()| parse(proposed_lines().unwrap().as_bytes()).unwrap());
        assert!(matches!((&one, &other), (Access::Open(_), Access::Open(_))));
        assert_ne!(one, other);
    }
}
