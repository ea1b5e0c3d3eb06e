//! What a terminal shows, and what a shell in it reads.

use std::path::{self, Path};

/// Returns an option with its path, as a shell reads them in any directory.
pub(crate) fn path_option(name: &str, path: &Path) -> String {
    let path = path::absolute(path).unwrap_or_else(|_| path.into());
    format!(" {name} '{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Returns whether a terminal or a reader of lines may take `c` for something else than a part of the text, or shows
/// nothing of it: the controls and formats of Unicode (Cc, Cf), the ends of lines (Zl, Zp), and the tags (U+E0000 ff.).
pub(crate) fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{600}'..='\u{605}'
                | '\u{61c}'
                | '\u{6dd}'
                | '\u{70f}'
                | '\u{890}'..='\u{891}'
                | '\u{8e2}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{2064}'
                | '\u{2066}'..='\u{206f}'
                | '\u{feff}'
                | '\u{fff9}'..='\u{fffb}'
                | '\u{110bd}'
                | '\u{110cd}'
                | '\u{13430}'..='\u{1343f}'
                | '\u{1bca0}'..='\u{1bca3}'
                | '\u{1d173}'..='\u{1d17a}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// Python's table of Unicode is an independent one. Its version may be older or newer than this list, so it answers
    /// for the characters that it knows.
    #[test]
    fn formats_and_controls_are_those_of_unicode() {
        let script = "import sys, unicodedata\n\
             category = lambda code: unicodedata.category(chr(code))\n\
             print(*(f'{code:x} {category(code)}' for code in range(0x110000) if category(code) not in ('Cs', 'Cn')), sep='\\n')";
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
