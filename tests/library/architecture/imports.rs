//! The imports of the crate, read from the text of its sources: which file names an item of which other file.
//!
//! A path that leads to a re-export counts as an import of the file that the item comes from, so that a `mod.rs` of
//! declarations and re-exports is no part of a circle.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A module's path, without `crate`: `["http", "h1", "head"]`.
type ModulePath = Vec<String>;

/// A source file of the crate.
pub(crate) struct Source {
    /// The path of the file below `src`.
    pub(crate) file: String,
    /// The code: no comments, no strings, no unit tests.
    pub(crate) code: String,
    module: ModulePath,
    /// The modules that the file declares, with those for tests left out.
    children: BTreeSet<String>,
    /// The names that the file re-exports, and the paths that they come from.
    reexports: BTreeMap<String, ModulePath>,
}

/// All sources of the crate.
pub(crate) struct Crate {
    pub(crate) sources: Vec<Source>,
}

/// One file names an item of another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Import {
    pub(crate) from: String,
    pub(crate) to: String,
}

impl Crate {
    /// Reads the sources below `src`, without those that are compiled for tests alone.
    pub(crate) fn read() -> Self {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let mut sources: Vec<_> = files(&src).iter().map(|path| Source::read(&src, path)).collect();
        let declared: BTreeSet<ModulePath> = sources.iter().flat_map(Source::declared).collect();
        sources.retain(|source| {
            let module = &source.module;
            (1..=module.len()).all(|length| declared.contains(&module[..length])) || source.file == "main.rs"
        });
        Self { sources }
    }

    /// Every import of one file from another.
    pub(crate) fn imports(&self) -> BTreeSet<Import> {
        let mut imports = BTreeSet::new();
        for source in &self.sources {
            for path in source.paths() {
                if let Some(to) = self.resolve(&path).filter(|to| *to != source.file) {
                    imports.insert(Import { from: source.file.clone(), to: to.to_owned() });
                }
            }
        }
        imports
    }

    /// The file that an absolute path leads to, through re-exports; `None` for an item of another crate.
    fn resolve(&self, path: &[String]) -> Option<&str> {
        let is_prefix = |source: &&Source| source.file != "main.rs" && path.starts_with(&source.module);
        let source = self.sources.iter().filter(is_prefix).max_by_key(|source| source.module.len())?;
        match path.get(source.module.len()).and_then(|name| source.reexports.get(name)) {
            Some(origin) if origin != path => self.resolve(origin),
            _ => Some(&source.file),
        }
    }
}

impl Source {
    fn read(src: &Path, path: &Path) -> Self {
        let file = path.strip_prefix(src).unwrap().to_string_lossy().into_owned();
        let stem = file.trim_end_matches(".rs").trim_end_matches("mod").trim_end_matches('/');
        let module = match stem {
            "lib" | "main" => Vec::new(),
            stem => stem.split('/').map(str::to_owned).collect(),
        };
        let code = code_of(&fs::read_to_string(path).unwrap());
        let children = declarations(&code).into_iter().map(str::to_owned).collect();
        let mut source = Self { file, code, module, children, reexports: BTreeMap::new() };
        source.reexports = source.find_reexports();
        source
    }

    fn declared(&self) -> Vec<ModulePath> {
        self.children.iter().map(|child| [self.module.as_slice(), std::slice::from_ref(child)].concat()).collect()
    }

    fn find_reexports(&self) -> BTreeMap<String, ModulePath> {
        let uses = uses(&self.code).into_iter().filter(|(public, _)| *public);
        let paths = uses.flat_map(|(_, tree)| expand(&tree)).filter_map(|path| self.absolute(&path));
        paths.filter_map(|path| Some((path.last()?.clone(), path))).collect()
    }

    /// The absolute paths that the file names. Those that it re-exports count where its own code names them too.
    fn paths(&self) -> Vec<ModulePath> {
        let mut paths = Vec::new();
        let mut rest = self.code.clone();
        for (public, tree) in uses(&self.code) {
            rest = rest.replace(&tree, "");
            if !public {
                paths.extend(expand(&tree));
            }
        }
        paths.extend(inline_paths(&rest));
        let own_code = rest.lines().filter(|line| !line.trim_end().ends_with(';') || !line.contains("mod "));
        let words: BTreeSet<&str> = own_code.flat_map(|line| line.split(|c: char| !is_word(c))).collect();
        let mut absolute: Vec<_> = paths.iter().filter_map(|path| self.absolute(path)).collect();
        let own = self.reexports.iter().filter(|(name, _)| words.contains(name.as_str()));
        absolute.extend(own.map(|(_, path)| path.clone()));
        absolute
    }

    fn absolute(&self, path: &[String]) -> Option<ModulePath> {
        let mut base = self.module.clone();
        let mut rest = path;
        match path.first()?.as_str() {
            "crate" | "adapter_gateway" => {
                base.clear();
                rest = &path[1..];
            }
            "self" => rest = &path[1..],
            "super" => {
                while rest.first().is_some_and(|segment| segment == "super") {
                    base.pop();
                    rest = &rest[1..];
                }
            }
            first if self.children.contains(first) => {}
            _ => return None,
        }
        base.extend(rest.iter().filter(|segment| *segment != "self").cloned());
        Some(base)
    }
}

/// The sources below a directory.
pub(crate) fn files(path: &Path) -> Vec<PathBuf> {
    if path.is_dir() {
        let entries = fs::read_dir(path).unwrap();
        return entries.flat_map(|entry| files(&entry.unwrap().path())).collect();
    }
    if path.extension().is_some_and(|extension| extension == "rs") { vec![path.into()] } else { Vec::new() }
}

/// The text without comments, string literals and what is compiled for tests alone.
fn code_of(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut code = String::new();
    let mut lines = lines.peekable();
    while let Some(line) = lines.next() {
        if line.trim() == "#[cfg(test)]" {
            // The unit tests are the last item of a file; a declaration is one line.
            if lines.peek().is_some_and(|next| next.trim_end().ends_with('{')) {
                break;
            }
            lines.next();
            continue;
        }
        code.push_str(&without_strings(line));
        code.push('\n');
    }
    code
}

/// A line without its string literals and the comment behind it. Literals of several lines stay, which no path is in.
fn without_strings(line: &str) -> String {
    let mut code = String::new();
    let mut inside = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' if inside => drop(chars.next()),
            '"' => inside = !inside,
            '/' if !inside && chars.peek() == Some(&'/') => break,
            c if !inside => code.push(c),
            _ => {}
        }
    }
    code
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The modules that are declared in files of their own.
fn declarations(code: &str) -> Vec<&str> {
    let statements = code.lines().filter_map(|line| line.trim().strip_suffix(';'));
    statements
        .filter_map(|line| line.rsplit_once("mod ").map(|(_, name)| name))
        .filter(|name| name.chars().all(is_word))
        .collect()
}

/// The trees of the `use` declarations, and whether each is a re-export.
fn uses(code: &str) -> Vec<(bool, String)> {
    let mut found = Vec::new();
    let mut rest = code;
    while let Some(at) = rest.find("use ") {
        let (before, after) = rest.split_at(at);
        let line = before.rsplit('\n').next().unwrap_or_default();
        let Some((tree, behind)) = after["use ".len()..].split_once(';') else { break };
        let begins_item = line.trim().is_empty() || line.trim_start().starts_with("pub");
        if begins_item {
            found.push((line.contains("pub"), tree.to_owned()));
            rest = behind;
        } else {
            rest = &after["use ".len()..];
        }
    }
    found
}

/// The paths of a `use` tree; a renamed one under its first name.
fn expand(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    let Some((prefix, group)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.split("::").map(|segment| segment.trim().to_owned()).filter(|s| !s.is_empty()).collect()];
    };
    let prefix: Vec<String> = prefix.split("::").map(|s| s.trim().to_owned()).filter(|s| !s.is_empty()).collect();
    let inner = group.rsplit_once('}').map_or(group, |(inner, _)| inner);
    let members = split_members(inner).into_iter().flat_map(|member| expand(&member));
    members.map(|member| [prefix.clone(), member].concat()).collect()
}

/// The members of a group, at the commas that no inner group holds.
fn split_members(group: &str) -> Vec<String> {
    let (mut members, mut depth) = (vec![String::new()], 0);
    for c in group.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                members.push(String::new());
                continue;
            }
            _ => {}
        }
        members.last_mut().unwrap().push(c);
    }
    members.into_iter().filter(|member| !member.trim().is_empty()).collect()
}

/// The paths of two segments and more that stand in the code itself.
fn inline_paths(code: &str) -> Vec<Vec<String>> {
    let words = code.split(|c: char| !is_word(c) && c != ':').filter(|word| word.contains("::"));
    let paths = words.map(|word| word.split("::").map(str::to_owned).collect::<Vec<_>>());
    paths.filter(|path| path.iter().all(|segment| !segment.is_empty() && !segment.contains(':'))).collect()
}
