//! What a terminal shows, and what a shell in it reads.

use std::os::unix::ffi::OsStrExt;
use std::path::{self, Path};

/// Returns an option with its path, as a shell reads them in any directory; bash, zsh and ksh where it is not UTF-8.
pub(crate) fn path_option(name: &str, path: &Path) -> String {
    let path = path::absolute(path).unwrap_or_else(|_| path.into());
    match path.to_str() {
        Some(path) => format!(" {name} '{}'", path.replace('\'', r"'\''")),
        None => format!(" {name} $'{}'", path.as_os_str().as_bytes().escape_ascii()),
    }
}

/// Returns whether a terminal or a reader of lines may take `c` for something else than a part of the text, or shows
/// nothing of it: what the standard library escapes, such as controls, formats and the ends of lines, but no space.
pub(crate) fn is_unseen(c: char) -> bool {
    if c.is_ascii() {
        return c.is_ascii_control();
    }
    let is_space = c.is_whitespace() && !c.is_control() && !matches!(c, '\u{2028}' | '\u{2029}');
    // A mark that joins the character before it is escaped where there is none.
    !is_space && format!("x{c}").escape_debug().nth(2).is_some()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Python's table of Unicode is an independent one. Its version may be another one, so it answers for the characters
    /// that it knows. Those of private use (Co) may be seen or not.
    #[test]
    fn what_is_not_seen_are_controls_formats_and_ends_of_lines() {
        let script = "import sys, unicodedata\n\
             category = lambda code: unicodedata.category(chr(code))\n\
             print(*(f'{code:x} {category(code)}' for code in range(0x110000) if category(code) not in ('Cs', 'Cn', 'Co')), sep='\\n')";
        let output = Command::new("python3").args(["-c", script]).output().unwrap();
        let table = String::from_utf8(output.stdout).unwrap();
        assert!(table.lines().count() > 100_000, "{}", String::from_utf8_lossy(&output.stderr));
        for line in table.lines() {
            let (code, category) = line.split_once(' ').unwrap();
            let c = char::from_u32(u32::from_str_radix(code, 16).unwrap()).unwrap();
            assert_eq!(is_unseen(c), matches!(category, "Cc" | "Cf" | "Zl" | "Zp"), "U+{code} {category}");
        }
    }
}
