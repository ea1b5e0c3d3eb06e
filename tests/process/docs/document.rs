//! A document, and the parts of it that a mark names.
//!
//! `<!-- run: NAME -->` and `<!-- example: NAME -->` mark the block of code that follows, other marks a table. Between
//! `<!-- generated: NAME -->` and `<!-- end of generated: NAME -->` stands what `messages` writes; the marks are
//! comments of the language of the file.

use super::*;

pub(crate) struct Document {
    /// The path from the root of the repository.
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Returns the file of this path, or the files in the folder and below.
pub(crate) fn files_at(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(path) else { return vec![path.to_owned()] };
    entries.flat_map(|entry| files_at(&entry.unwrap().path())).collect()
}

/// The folders that have documents for people.
const FOLDERS: [&str; 7] = ["", "docs/", "benches/", "fuzz/", "packaging/", "python/", "tests/"];

pub(crate) fn all() -> Vec<Document> {
    let paths = FOLDERS.iter().flat_map(|folder| {
        let files = fs::read_dir(repository(folder)).unwrap().map(|file| file.unwrap().file_name().into_string());
        files.map(move |name| format!("{folder}{}", name.unwrap()))
    });
    paths.filter(|path| path.ends_with(".md")).map(|path| Document::read(&path)).collect()
}

impl Document {
    pub(crate) fn read(path: &str) -> Self {
        let text = fs::read_to_string(repository(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        Self { path: path.into(), text }
    }

    pub(crate) fn write(&self) {
        fs::write(repository(&self.path), &self.text).unwrap();
    }

    fn after_each(&self, mark: &str) -> impl Iterator<Item = &str> {
        self.text.split(&format!("<!-- {mark} -->\n")).skip(1).collect::<Vec<_>>().into_iter()
    }

    /// Returns what follows `<!-- MARK -->`, which stands once in the document.
    fn after(&self, mark: &str) -> &str {
        let mut parts = self.after_each(mark);
        let rest = parts.next().unwrap_or_else(|| panic!("{} has no mark {mark}", self.path));
        assert!(parts.next().is_none(), "{} has the mark {mark} twice", self.path);
        rest
    }

    pub(crate) fn block(&self, mark: &str) -> &str {
        let (fence, rest) = self.after(mark).split_once('\n').unwrap();
        assert!(fence.starts_with("```"), "{}: {fence}", self.path);
        rest.split_once("```").unwrap().0
    }

    /// Returns the cells of each row of the table after a mark, without the heading. The first cell has index 0.
    pub(crate) fn table(&self, mark: &str) -> Vec<Vec<&str>> {
        rows(self.after(mark))
    }

    /// Returns the words between backticks in a column of the table after a mark.
    pub(crate) fn words(&self, mark: &str, column: usize) -> Vec<&str> {
        self.table(mark).into_iter().flat_map(|row| quoted(row[column])).collect()
    }

    pub(crate) fn tables(&self, mark: &str) -> Vec<Vec<Vec<&str>>> {
        self.after_each(mark).map(rows).collect()
    }

    /// Replaces what stands between the marks of a generated part. `content` ends with a newline.
    pub(crate) fn replace_generated(&mut self, name: &str, content: &str) {
        let line_of = |mark: &str| {
            let mut at = 0;
            let found = self.text.split_inclusive('\n').find_map(|line| {
                let range = at..at + line.len();
                at = range.end;
                let word = line.trim_matches(|c: char| c.is_whitespace() || "<!->#.\\\"".contains(c));
                (word == mark).then_some(range)
            });
            found.unwrap_or_else(|| panic!("{} has no line: {mark}", self.path))
        };
        let first = line_of(&format!("generated: {name}")).end;
        let last = line_of(&format!("end of generated: {name}")).start;
        self.text.replace_range(first..last, content);
    }
}

/// Returns the cells of each row of the table that the text begins with, without the heading.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let rows = text.lines().take_while(|line| line.starts_with('|')).skip(2);
    rows.map(|row| {
        // `\|` is a vertical bar in a cell.
        let bars = row.match_indices('|').filter(|&(at, _)| !row[..at].ends_with('\\'));
        let bars: Vec<usize> = bars.map(|(at, _)| at).collect();
        bars.windows(2).map(|pair| row[pair[0] + 1..pair[1]].trim()).collect()
    })
    .collect()
}

pub(crate) fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}
