//! Inputs that are written as text: each begins with `## NAME`, and its bytes stand behind `> `. `\r`, `\n`, `\t`, `\\`
//! and `\xNN` are bytes, and `\{N}` repeats what follows it. The end of a line of the text is no part of an input.

/// Returns the name of each input, and the lines below it.
pub(crate) fn sections(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let sections = text.strip_prefix("## ").into_iter().flat_map(|text| text.split("\n## "));
    sections.map(|section| section.split_once('\n').unwrap_or((section, "")))
}

/// Returns the bytes that stand in these lines.
pub(crate) fn bytes(lines: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for mut rest in lines.lines().filter_map(|line| line.strip_prefix("> ")) {
        while !rest.is_empty() {
            let (count, one) = match rest.strip_prefix("\\{").and_then(|repeated| repeated.split_once('}')) {
                Some((count, one)) => (count.parse().expect("a count"), one),
                None => (1, rest),
            };
            let (part, behind) = first_part(one);
            bytes.extend(part.repeat(count));
            rest = behind;
        }
    }
    bytes
}

/// Returns the bytes of the first character or escape, and the rest.
fn first_part(text: &str) -> (Vec<u8>, &str) {
    let Some(escape) = text.strip_prefix('\\') else {
        let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
        return (first.into(), rest);
    };
    let (kind, rest) = escape.split_at(1);
    match kind {
        "r" => (b"\r".into(), rest),
        "n" => (b"\n".into(), rest),
        "t" => (b"\t".into(), rest),
        "\\" => (b"\\".into(), rest),
        "x" => (vec![u8::from_str_radix(&rest[..2], 16).expect("two hexadecimal digits")], &rest[2..]),
        _ => panic!("no escape: \\{escape}"),
    }
}
