//! What the documents say where something is: each name in a table exists.

use super::*;

/// Where a file that names an example of a change must stand in the table of changes.
const SEARCHED: [&str; 7] = [
    "src",
    "python/adapter_gateway",
    "packaging/completions",
    "packaging/man",
    "docs/reference.md",
    "docs/openapi.yaml",
    "tests/support",
];

/// Fails unless the files below `root` and the definitions exist that a cell names. Returns the number of definitions.
fn assert_exists(page: &Document, root: &str, cell: &str) -> usize {
    let missing = |name: &str| format!("{} names {name}, which does not exist, in the cell: {cell}", page.path);
    let (mut words, mut definitions) = (Vec::new(), 0);
    for name in quoted(cell) {
        let path = repository(&format!("{root}{name}"));
        if name.contains(['/', '.']) {
            assert!(path.exists(), "{}", missing(name));
            let code = fs::read_to_string(path).unwrap_or_default().replace("->", "");
            let parts = code.split(|c: char| !c.is_alphanumeric() && !"_>".contains(c));
            words = parts.filter(|part| !part.is_empty()).map(str::to_owned).collect();
        } else {
            // The type of a function stands behind `struct`, or behind `impl` with what it is generic over.
            let defines = |before: &str| matches!(before, "fn" | "struct" | "impl" | "for") || before.ends_with('>');
            let is_there = |word| words.windows(2).any(|pair| pair[1] == word && defines(&pair[0]));
            assert!(name.split("::").all(is_there), "{}", missing(name));
            definitions += 1;
        }
    }
    definitions
}

#[test]
fn the_table_of_changes_names_every_file_of_its_examples_and_the_way_of_a_message_what_exists() {
    let design = Document::read("docs/design.md");
    let mut examples = 0;
    for row in design.table("changes") {
        let cells = row[1..].concat();
        assert_exists(&design, "", &cells);
        let Some(example) = quoted(row[0]).next() else { continue };
        examples += 1;
        let files: Vec<_> = SEARCHED.iter().flat_map(|path| files_with(&plain(example), path)).collect();
        let is_named = |file: &&String| quoted(&cells).any(|name| Path::new(file).starts_with(name));
        let missing: Vec<_> = files.iter().filter(|file| !is_named(file)).collect();
        assert!(missing.is_empty(), "docs/design.md, the row of {}, does not name {missing:?}", row[0]);
        assert!(files.len() > 1, "{example} stands nowhere");
    }
    assert_eq!(examples, 4);

    let way = design.table("way");
    assert!(way.len() > 10);
    let files: BTreeSet<_> = design.words("way", 1).into_iter().filter(|name| name.ends_with(".rs")).collect();
    assert!(files.len() <= 25, "the way of a message has {} files", files.len());
    way.iter().chain(&design.table("byways")).for_each(|row| _ = assert_exists(&design, "src/", row[1]));
}

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
    let lines = |page, mark| {
        let sections = cases(page, mark).into_iter();
        sections.flat_map(|(heading, rows)| rows.into_iter().map(move |row| [heading, row])).collect::<Vec<_>>()
    };
    assert_same_order("tests/security.md, beside docs/security.md", lines(&tests, "tests"), lines(&page, "rows"));
    let rows = tests.tables("tests").concat();
    assert!(rows.len() > 25, "{} rows", rows.len());
    for row in rows {
        assert!(assert_exists(&tests, "", row[1]) > 0, "no test for {}", row[0]);
    }
}

/// Returns the files at or below `path` that name the example, except tests in a folder of their own.
fn files_with(example: &str, path: &str) -> Vec<String> {
    let is_left_out = |below: &Path| below.iter().any(|part| part == "tests" || part == "__pycache__");
    let mut files = files_at(&repository(path));
    files.retain(|file| !is_left_out(file.strip_prefix(repository(path)).unwrap()));
    files.retain(|file| plain(&fs::read_to_string(file).unwrap()).contains(example));
    files.iter().map(|file| file.strip_prefix(repository("")).unwrap().display().to_string()).collect()
}

/// Returns the text in lower case, without what separates the words of a name: `--idle-timeout` is `IDLE_TIMEOUT`.
fn plain(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '-' | '_' | '\\')).map(|c| c.to_ascii_lowercase()).collect()
}
