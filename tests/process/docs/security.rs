//! The tests that `docs/security.md` names exist.

use super::document::{Document, quoted, repository};

#[test]
fn every_test_that_the_page_of_security_names_exists() {
    let page = Document::read("docs/security.md");
    let sections: Vec<_> = page.text.split("<!-- tests -->\n").skip(1).collect();
    assert_eq!(sections.len(), 5);
    for row in sections.iter().flat_map(|section| section.lines().take_while(|line| line.starts_with('|')).skip(2)) {
        let cell = row.trim_end_matches('|').rsplit('|').next().unwrap();
        let mut source = None;
        let mut named = 0;
        for name in quoted(cell) {
            if name.ends_with(".rs") {
                let text = std::fs::read_to_string(repository(name));
                source = Some(text.unwrap_or_else(|error| panic!("{name}: {error}")));
            } else {
                let source = source.as_ref().unwrap_or_else(|| panic!("no file before {name}"));
                assert!(source.contains(&format!("fn {name}(")), "there is no test {name}");
                named += 1;
            }
        }
        assert!(named > 0, "no test in {row}");
    }
}
