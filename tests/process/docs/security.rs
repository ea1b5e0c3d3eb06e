//! Each row of `docs/security.md` has tests in `tests/security.md`, and these exist.

use super::document::{Document, quoted, repository};

/// Returns the cells of all tables behind this mark, with the heading of the section before each row.
fn rows<'d>(page: &'d Document, mark: &str) -> Vec<[&'d str; 3]> {
    let mut rows = Vec::new();
    for section in page.text.split("\n## ").skip(1) {
        let Some((_, table)) = section.split_once(mark) else { continue };
        let heading = section.lines().next().unwrap();
        for row in table.lines().skip(1).take_while(|line| line.starts_with('|')).skip(2) {
            let (case, other) = row.trim_matches('|').split_once(" | ").unwrap();
            rows.push([heading, case.trim(), other]);
        }
    }
    rows
}

#[test]
fn every_row_of_the_page_of_security_has_tests_that_exist() {
    let [page, tests] = ["docs/security.md", "tests/security.md"].map(Document::read);
    let tested = rows(&tests, "<!-- tests -->");
    let cases = |rows: &[[&str; 3]]| rows.iter().map(|row| format!("{}: {}", row[0], row[1])).collect::<Vec<_>>();
    assert_eq!(cases(&rows(&page, "<!-- rows -->")), cases(&tested));
    assert!(tested.len() > 25, "{} rows", tested.len());
    for row in tested {
        let mut source = None;
        let mut named = 0;
        for name in quoted(row[2]) {
            if name.ends_with(".rs") {
                let text = std::fs::read_to_string(repository(name));
                source = Some(text.unwrap_or_else(|error| panic!("{name}: {error}")));
            } else {
                let source = source.as_ref().unwrap_or_else(|| panic!("no file before {name}"));
                assert!(source.contains(&format!("fn {name}(")), "there is no test {name}");
                named += 1;
            }
        }
        assert!(named > 0, "no test for {}", row[1]);
    }
}
