//! Each row of `docs/security.md` has tests in `tests/security.md`, and these exist.

use super::document::{Document, quoted, repository};

/// Returns the headings of the sections with a table after this mark, and the first cell of each row of each table.
fn cases<'d>(page: &'d Document, mark: &str) -> Vec<(&'d str, Vec<&'d str>)> {
    let sections = page.text.split("\n## ").filter(|section| section.contains(&format!("<!-- {mark} -->")));
    let headings = sections.map(|section| section.lines().next().unwrap());
    let first_cells = |rows: Vec<Vec<&'d str>>| rows.into_iter().map(|row| row[0]).collect();
    headings.zip(page.tables(mark).into_iter().map(first_cells)).collect()
}

#[test]
fn every_row_of_the_page_of_security_has_tests_that_exist() {
    let [page, tests] = ["docs/security.md", "tests/security.md"].map(Document::read);
    assert_eq!(cases(&page, "rows"), cases(&tests, "tests"));
    let rows = tests.tables("tests").concat();
    assert!(rows.len() > 25, "{} rows", rows.len());
    for row in rows {
        let mut source = None;
        let mut named = 0;
        for name in quoted(row[1]) {
            if name.ends_with(".rs") {
                let text = std::fs::read_to_string(repository(name));
                source = Some(text.unwrap_or_else(|error| panic!("{name}: {error}")));
            } else {
                let source = source.as_ref().unwrap_or_else(|| panic!("no file before {name}"));
                assert!(source.contains(&format!("fn {name}(")), "there is no test {name}");
                named += 1;
            }
        }
        assert!(named > 0, "no test for {}", row[0]);
    }
}
