//! Links and names lead to what exists; the size of the first document; the page for CI and the files for forges. The
//! examples for pytest run in `tests/clients/adapter_client.py`, where the public client is installed.

use super::*;

#[test]
fn the_pages_are_few_and_the_first_ones_short_and_the_readme_begins_with_two_commands() {
    let documents = document::all();
    let words = |page: &Document| page.text.split_whitespace().count();
    let pages = documents.iter().filter(|page| page.path == "README.md" || page.path.starts_with("docs/"));
    let all: usize = pages.map(words).sum();
    assert!(all <= 20_000, "README.md and docs have {all} words, 20,000 at most: what is added replaces something");
    let of_ci = words(&Document::read("docs/ci.md"));
    assert!(of_ci <= 700, "docs/ci.md has {of_ci} words, which a reader takes in before the first job");
    let readme = Document::read("README.md").text;
    assert!(readme.len() <= 10_000, "README.md has {} bytes: more than five minutes", readme.len());
    let mut commands = readme.split("```sh\n").skip(1).map(|block| block.lines().next().unwrap());
    assert_eq!([commands.next(), commands.next()], [Some("cargo run -- demo"), Some("cargo test")]);
}

#[test]
fn links_lead_to_a_file_and_to_a_heading() {
    let documents = document::all();
    let mut broken = Vec::new();
    for document in &documents {
        for target in relative_links(&document.text) {
            let (file, heading) = (linked(document, target), target.split_once('#').map_or("", |(_, heading)| heading));
            let found = match fs::read_to_string(&file) {
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

/// Who installs the `.deb` reads the documents in `/usr/share/doc`, and their links lead to files beside them.
#[test]
fn the_deb_ships_what_its_documents_link_to_and_the_unit_that_the_page_of_operations_names() {
    let manifest = include_str!("../../../Cargo.toml");
    let line =
        |line: &'static str| line.trim().strip_prefix("[\"")?.strip_suffix("\", \"644\"],")?.split_once("\", \"");
    let shipped = manifest.lines().filter_map(line).flat_map(|(from, to)| {
        let (folder, name) = from.rsplit_once('/').unwrap_or(("", from));
        let kept =
            to.strip_prefix("usr/share/doc/adapter-gateway/").is_some_and(|to| to.trim_end_matches('/') == folder);
        let (before, after) = (name.split('*').next().unwrap(), name.split('*').next_back().unwrap());
        let files = entries(repository(folder)).map(|file| file.file_name().unwrap().to_str().unwrap().to_owned());
        let files = files.filter(move |file| kept && file.starts_with(before) && file.ends_with(after));
        files.flat_map(move |file| [folder.to_owned(), format!("{folder}/{file}").trim_start_matches('/').to_owned()])
    });
    let shipped: BTreeSet<String> = shipped.collect();
    let pages: Vec<Document> = document::all().into_iter().filter(|page| shipped.contains(&page.path)).collect();
    assert!(pages.len() > 10, "the .deb ships {} documents", pages.len());
    let files: Vec<PathBuf> = shipped.iter().map(|path| repository(path).canonicalize().unwrap()).collect();
    let mut missing = Vec::new();
    for page in &pages {
        let is_missing = |link: &&str| !linked(page, link).canonicalize().is_ok_and(|file| files.contains(&file));
        missing.extend(relative_links(&page.text).filter(is_missing).map(|link| format!("{}: {link}", page.path)));
    }
    assert!(missing.is_empty(), "links that lead nowhere in the .deb: {missing:#?}");

    // A second unit on the page would differ from the packaged one sooner or later.
    let page = Document::read("docs/operations.md").text;
    assert!(page.contains("packaging/systemd/adapter-gateway.service") && !page.contains("WantedBy=default.target"));
    let unit = Document::read("packaging/systemd/adapter-gateway.service").text;
    let lines = ["ExecStart=/usr/bin/adapter-gateway serve", "RestartSec=5", "ConfigurationDirectoryMode=0700"];
    assert!(lines.iter().all(|line| unit.lines().any(|of_unit| of_unit == *line)), "the documents rely on {lines:?}");
}

/// Returns the file that a page links to, which is the page itself if the link names none.
fn linked(page: &Document, link: &str) -> PathBuf {
    let page = repository(&page.path);
    match link.split('#').next().unwrap() {
        "" => page,
        file => page.with_file_name(file),
    }
}

/// A program that reads the document, such as a generator of clients, fails at a reference that leads nowhere.
#[test]
fn references_of_the_openapi_document_lead_to_a_part_of_it() {
    let openapi = Document::read("docs/openapi.yaml").text;
    let references: BTreeSet<&str> =
        openapi.split("$ref: '").skip(1).map(|rest| rest.split_once('\'').unwrap().0).collect();
    assert!(references.len() > 20, "the document writes its references in another way: {references:?}");
    let leads = |reference: &&str| {
        let place = reference.strip_prefix("#/components/").and_then(|place| place.split_once('/'));
        place.is_some_and(|(kind, name)| {
            let (_, parts) = openapi.split_once(&format!("\n  {kind}:\n")).unwrap_or_default();
            let parts = parts.lines().filter(|line| !line.is_empty() && !line.trim_start().starts_with('#'));
            let mut parts = parts.take_while(|line| line.starts_with("    "));
            parts.any(|line| line.starts_with(&format!("    {name}:")))
        })
    };
    let broken: Vec<_> = references.iter().filter(|reference| !leads(reference)).collect();
    assert!(broken.is_empty(), "references that lead nowhere: {broken:#?}");
}

#[test]
fn the_script_of_five_lines_asserts_a_round_trip() {
    let page = Document::read("docs/ci.md");
    let round_trip = page.block("run: round trip");
    assert_eq!(round_trip.lines().count(), 5);
    let broken = round_trip.replace("send --settings user_settings.py", "send --settings no_settings.py");
    for (script, status) in [(round_trip, 0), (&broken, 3)] {
        let directory = tempfile::tempdir().unwrap();
        let script = page.block("run: serve").to_owned() + script;
        let folder = Path::new(GATEWAY).parent().unwrap().display();
        let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
        let mut shell = command(&["sh", "-e", "-c", &script]);
        let printed = Process::spawn(shell.env("PATH", path).env("TMPDIR", directory.path())).finish(status).stdout;
        assert_eq!(printed == "adapter/nodes/data\t{\"node_id\": \"a\", \"content\": 1}\n", status == 0);
    }
}

#[test]
fn the_files_for_forges_call_scripts_that_exist() {
    let mut called = 0;
    for path in [files_at(&repository(".github/workflows")), vec![repository(".gitlab-ci.yml")]].concat() {
        let text = fs::read_to_string(path).unwrap();
        let is_script = |word: &&str| [".ci/", "packaging/build", "fuzz/run"].iter().any(|it| word.starts_with(it));
        for script in text.lines().filter(|line| !line.contains('#')).flat_map(str::split_whitespace).filter(is_script)
        {
            assert!(repository(script).is_file(), "there is no {script}");
            called += 1;
        }
    }
    assert!(called > 8, "the files call {called} scripts");
}

/// The address is in one place. crates.io leads the relative links of its page there, and PyPI has no relative links.
#[test]
fn the_manifests_name_one_address() {
    let [cargo, python] = ["Cargo.toml", "pyproject.toml"].map(|path| Document::read(path).text);
    let (_, address) = cargo.split_once("\nrepository = \"").unwrap();
    let address = address.split('"').next().unwrap();
    let (_, urls) = python.split_once("[project.urls]\n").unwrap();
    let urls = urls.lines().take_while(|line| !line.is_empty());
    let of_cargo = cargo.lines().filter(|line| line.starts_with("homepage = ") || line.starts_with("documentation = "));
    let urls: Vec<_> = urls.chain(of_cargo).map(|line| line.split('"').nth(1).unwrap()).collect();
    assert_eq!(urls.len(), 5, "{urls:?}");
    let is_other = |url: &&&str| !url.strip_prefix(address).is_some_and(|rest| rest.is_empty() || rest == "#documents");
    let others: Vec<_> = urls.iter().filter(is_other).collect();
    assert!(others.is_empty(), "Cargo.toml has the address {address}, which these do not begin with: {others:?}");
    assert_eq!(relative_links(&Document::read("python/README.md").text).next(), None);
}

#[test]
fn a_release_has_the_text_of_the_changelog_which_names_its_date() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("packaging/debian")).unwrap();
    let entry = "adapter-gateway (1.2.0) unstable; urgency=medium\n";
    fs::write(folder.path().join("packaging/debian/changelog"), entry).unwrap();
    let notes = |date: &str, arguments: &[&str]| {
        let changelog = format!("# Changelog\n\n## [1.2.0] - {date}\n\nNew.\n\n## [1.1.0] - 2026-01-02\n\nOld.\n");
        fs::write(folder.path().join("CHANGELOG.md"), changelog).unwrap();
        let manifest = "version = \"1.2.0\"\nrepository = \"https://example.invalid/a\"\n";
        fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
        let mut command = Command::new(repository("packaging/release-notes"));
        let output = command.args(arguments).current_dir(folder.path()).output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    };
    assert_eq!(notes("2026-03-04", &["v1.2.0", "https://example.invalid/a"]).as_deref(), Some("\nNew.\n\n"));
    assert_eq!(notes("unreleased", &["v1.2.0", "https://example.invalid/a"]), None);
    assert_eq!(notes("2026-03-04", &["v1.2.0", "https://example.invalid/b"]), None);
    assert_eq!(notes("2026-03-04", &["v1.1.0", "https://example.invalid/a"]), None);
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

/// Where a file that names an example of a change must stand in the table of changes.
const SEARCHED: &str = "src python/adapter_gateway packaging/completions packaging/man docs/reference.md \
                        docs/openapi.yaml tests/support";

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
        let files: Vec<_> = SEARCHED.split_whitespace().flat_map(|path| files_with(&plain(example), path)).collect();
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
