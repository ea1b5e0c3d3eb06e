//! Links between the documents, and the size of the first one.

use super::document::{self, Document, repository};

/// What a reader takes in within five minutes, in bytes.
const README_BYTES: usize = 10_000;

#[test]
fn the_readme_is_short() {
    let bytes = Document::read("README.md").text.len();
    assert!(bytes <= README_BYTES, "README.md has {bytes} bytes");
}

#[test]
fn the_first_two_commands_of_the_readme_show_the_program_and_test_it() {
    let readme = Document::read("README.md").text;
    let mut commands = readme.split("```sh\n").skip(1).map(|block| block.lines().next().unwrap());
    assert_eq!([commands.next(), commands.next()], [Some("cargo run --release -- demo"), Some("cargo test")]);
}

#[test]
fn links_lead_to_a_file_and_to_a_heading() {
    let documents = document::all();
    let mut broken = Vec::new();
    for document in &documents {
        let folder = repository(&document.path).parent().unwrap().to_path_buf();
        for target in relative_links(&document.text) {
            let (file, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = if file.is_empty() { repository(&document.path) } else { folder.join(file) };
            let found = match std::fs::read_to_string(&file) {
                Ok(text) => heading.is_empty() || headings(&text).any(|name| name == heading),
                Err(_) => file.is_dir() && heading.is_empty(),
            };
            if !found {
                broken.push(format!("{}: {target}", document.path));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere: {broken:#?}");
}

/// Who installs the `.deb` reads the README in `/usr/share/doc`, and its links lead to files beside it.
#[test]
fn the_deb_ships_what_its_readme_links_to() {
    let manifest = Document::read("Cargo.toml").text;
    let assets: Vec<[&str; 2]> = manifest
        .lines()
        .filter_map(|line| line.trim().strip_prefix("[\"")?.strip_suffix("\", \"644\"],")?.split_once("\", \""))
        .map(|(from, to)| [from, to])
        .collect();
    let is_shipped = |path: &str| {
        let folder = path.rsplit_once('/').map(|(folder, _)| format!("{folder}/")).unwrap_or_default();
        assets.iter().any(|[from, to]| {
            let matches = match from.split_once('*') {
                Some((before, _)) => path.starts_with(before),
                None => path == *from,
            };
            matches && *to == format!("usr/share/doc/adapter-gateway/{folder}")
        })
    };
    let readme = Document::read("README.md").text;
    let paths = relative_links(&readme).map(|link| link.split_once('#').map_or(link, |(path, _)| path));
    let missing: Vec<_> = paths.filter(|path| !path.is_empty() && !is_shipped(path)).collect();
    assert!(missing.is_empty(), "links of the README that lead nowhere in the .deb: {missing:#?}");
}

/// A second unit on the page would differ from the packaged one sooner or later.
#[test]
fn the_page_of_operations_names_the_packaged_unit_and_has_no_other() {
    let page = Document::read("docs/operations.md").text;
    assert!(page.contains("packaging/systemd/adapter-gateway.service") && !page.contains("WantedBy=default.target"));
    let unit = Document::read("packaging/systemd/adapter-gateway.service").text;
    assert!(unit.contains("ExecStart=/usr/bin/adapter-gateway serve\n"), "the page tells how to change this path");
}

fn relative_links(text: &str) -> impl Iterator<Item = &str> {
    let links = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    links.filter(|link| !link.contains("://"))
}

/// Returns what each heading is called in a link: lower case, without punctuation, with dashes for spaces.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let mut in_code = false;
    let lines = text.lines().filter(move |line| {
        in_code ^= line.starts_with("```");
        !in_code && line.starts_with('#')
    });
    lines.map(|line| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|&c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}
