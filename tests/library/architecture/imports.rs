//! The imports of the crate, read from the text of its sources: which file names an item of which other file.
//!
//! A path that leads to a re-export counts as an import of the file that the item comes from, so that a `mod.rs` of
//! declarations and re-exports is no part of a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A source file of the crate that is not compiled for tests alone.
pub(crate) struct Source {
    /// The path of the file below `src`.
    pub(crate) file: String,
    /// The code: no comments, no strings, no unit tests.
    pub(crate) code: String,
    /// The path of the module without `crate`: `http::h1::head`.
    module: String,
}

/// Reads the sources below `src`.
pub(crate) fn sources() -> Vec<Source> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sources: Vec<_> = files(&src).iter().map(|path| Source::read(&src, path)).collect();
    let is_compiled = |module: &str| {
        let (parent, name) = module.rsplit_once("::").unwrap_or(("", module));
        module.is_empty() || sources.iter().any(|source| source.module == parent && source.declares(name))
    };
    let compiled: Vec<_> = sources.iter().map(|source| prefixes(&source.module).all(is_compiled)).collect();
    let mut compiled = compiled.into_iter();
    sources.retain(|_| compiled.next() == Some(true));
    sources
}

/// Returns every import: the file that names an item, and the file that has it.
pub(crate) fn imports(sources: &[Source]) -> BTreeSet<(String, String)> {
    let files = sources.iter().filter(|source| source.file != "main.rs");
    let files: BTreeMap<&str, &str> = files.map(|source| (source.module.as_str(), source.file.as_str())).collect();
    let named: Vec<_> = sources.iter().map(|source| source.paths(&files)).collect();
    let mut reexports = BTreeMap::new();
    for (source, paths) in sources.iter().zip(&named) {
        for (_, path) in paths.iter().filter(|(is_public, _)| *is_public) {
            let name = path.rsplit("::").next().unwrap_or_default();
            reexports.insert(format!("{}::{name}", source.module), path.as_str());
        }
    }
    let mut imports = BTreeSet::new();
    for (source, paths) in sources.iter().zip(&named) {
        for (is_public, path) in paths {
            let name = path.rsplit("::").next().unwrap_or_default();
            // What a file re-exports counts where its own code names it too.
            let is_declared = usize::from(source.declares(name));
            let words = source.code.split(|c| !is_word(c)).filter(|word| *word == name);
            if *is_public && words.count() < 2 + is_declared {
                continue;
            }
            if let Some(to) = resolve(path, &files, &reexports).filter(|to| *to != source.file) {
                imports.insert((source.file.clone(), to.to_owned()));
            }
        }
    }
    imports
}

/// Returns the file that has what a path leads to, through re-exports.
fn resolve<'a>(path: &str, files: &BTreeMap<&str, &'a str>, reexports: &BTreeMap<String, &str>) -> Option<&'a str> {
    prefixes(path).find_map(|prefix| match reexports.get(prefix) {
        Some(origin) if *origin != path => resolve(origin, files, reexports),
        _ => files.get(prefix).copied(),
    })
}

/// Returns a path, the path of its parent, and so on up to the crate.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| match path.rsplit_once("::") {
        Some((parent, _)) => Some(parent),
        None => (!path.is_empty()).then_some(""),
    })
}

impl Source {
    fn read(src: &Path, path: &Path) -> Self {
        let file = path.strip_prefix(src).unwrap().to_string_lossy().into_owned();
        let stem = file.trim_end_matches(".rs").trim_end_matches("mod").trim_end_matches('/');
        let module = if matches!(stem, "lib" | "main") { String::new() } else { stem.replace('/', "::") };
        Self { code: code_of(&fs::read_to_string(path).unwrap()), file, module }
    }

    /// Returns whether the file declares a module of this name in a file of its own.
    fn declares(&self, name: &str) -> bool {
        self.code.lines().any(|line| line.ends_with(&format!("mod {name};")))
    }

    /// Returns the absolute paths that the file names, and whether it re-exports each.
    fn paths(&self, files: &BTreeMap<&str, &str>) -> Vec<(bool, String)> {
        let mut paths = Vec::new();
        for statement in self.code.split(';') {
            let mut code = statement;
            if let Some((before, tree)) = statement.rsplit_once("use ") {
                let (above, visibility) = before.rsplit_once('\n').unwrap_or(("", before));
                let is_public = visibility.trim_start().starts_with("pub");
                if is_public || visibility.trim().is_empty() {
                    code = above;
                    let (prefix, names) = tree.split_once('{').unwrap_or(("", tree));
                    let names = names.trim_end_matches('}').split(',').map(str::trim).filter(|name| !name.is_empty());
                    paths.extend(names.map(|name| (is_public, format!("{prefix}{name}"))));
                }
            }
            let inline = code.split(|c: char| !is_word(c) && c != ':').filter(|word| word.contains("::"));
            paths.extend(inline.map(|path| (false, path.to_owned())));
        }
        paths.iter().filter_map(|(is_public, path)| Some((*is_public, self.absolute(path, files)?))).collect()
    }

    /// Returns the path from the root of the crate; none for an item of another crate.
    fn absolute(&self, path: &str, files: &BTreeMap<&str, &str>) -> Option<String> {
        let mut segments = path.split(" as ").next()?.split("::").map(str::trim).filter(|it| !it.is_empty()).peekable();
        let first = *segments.peek()?;
        let mut base: Vec<_> = self.module.split("::").filter(|segment| !segment.is_empty()).collect();
        match first {
            "crate" | "adapter_gateway" => base.clear(),
            "super" => while segments.next_if_eq(&"super").is_some() && base.pop().is_some() {},
            "self" => {}
            child => {
                files.get([&base[..], &[child]].concat().join("::").as_str())?;
            }
        }
        base.extend(segments.filter(|segment| !matches!(*segment, "self" | "crate" | "adapter_gateway")));
        Some(base.join("::"))
    }
}

/// The sources below a directory.
fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_dir() {
        return fs::read_dir(path).unwrap().flat_map(|entry| files(&entry.unwrap().path())).collect();
    }
    if path.extension().is_some_and(|extension| extension == "rs") { vec![path.into()] } else { Vec::new() }
}

/// The text without comments, string literals and what is compiled for tests alone. Literals of several lines stay, which no
/// path is in.
fn code_of(text: &str) -> String {
    let mut lines = text.lines().filter(|line| !line.trim_start().starts_with("//")).peekable();
    let mut code = String::new();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            // The unit tests are the last item of a file; a declaration is one line.
            if lines.next().is_none_or(|next| next.trim_end().ends_with('{')) {
                break;
            }
            continue;
        }
        let outside = line.replace("\\\\", "").replace("\\\"", "").replace("'\"'", "");
        let outside: String = outside.split('"').step_by(2).collect();
        code.push_str(outside.split("//").next().unwrap_or_default().trim_end());
        code.push('\n');
    }
    code
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
