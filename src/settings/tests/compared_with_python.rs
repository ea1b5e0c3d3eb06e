//! The cases of [`super::cases`], decided by Python's own parser and its `ast.literal_eval`.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::cases::as_python;
use super::edit::NEW_TOKEN;
use crate::settings::{Access, DisabledReason, parse, with_access};
use crate::terms::token::Token;

/// Reads one source in hex from each line, and prints what it says.
const PYTHON: &str = r"
import ast, sys, warnings
warnings.simplefilter('ignore')

def bind(target, value, names):
    if isinstance(target, ast.Name):
        names[target.id] = value
    elif isinstance(target, (ast.Tuple, ast.List)):
        elements = getattr(value, 'elts', None) if isinstance(value, (ast.Tuple, ast.List)) else None
        starred = any(isinstance(e, ast.Starred) for e in target.elts + (elements or []))
        if elements is not None and len(elements) == len(target.elts) and not starred:
            for pair in zip(target.elts, elements):
                bind(*pair, names)
        else:
            for node in target.elts:
                node = node.value if isinstance(node, ast.Starred) else node
                bind(node, ast.Name('computed', ast.Load()), names)

def judge(source):
    names = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                bind(target, node.value, names)
        elif isinstance(node, ast.AnnAssign) and node.value is not None:
            bind(node.target, node.value, names)
        elif isinstance(node, ast.AugAssign):
            bind(node.target, node, names)
    opens = ast.literal_eval(names.get('OPEN_REST_API', ast.Constant(None))) is True
    token = ast.literal_eval(names.get('TOKEN', ast.Constant(None)))
    if token is not None and not isinstance(token, str):
        return 'refused'
    token = (token or '').encode().hex()
    return 'not open' if not opens else 'open ' + token if token else 'no token'

for line in sys.stdin:
    try:
        print(judge(bytes.fromhex(line)))
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError) as error:
        print('refused')
";

/// Prints, for each encoding in which ASCII stands for itself, its name, a file in it, and the token of the file.
const ENCODINGS: &str = r"
import codecs, encodings, pkgutil
from encodings.aliases import aliases
ascii = bytes([9, 10, 12, 13, *range(32, 127)])
names = {*aliases, *aliases.values(), *(module.name for module in pkgutil.iter_modules(encodings.__path__))}
for name in sorted(names):
    try:
        codec = codecs.lookup(name)
        if not codec._is_text_encoding or ascii.decode(name) != ascii.decode():
            continue
    except (LookupError, UnicodeError):
        continue
    # These are no encodings of files.
    if codec.name in ('charmap', 'idna', 'punycode', 'raw-unicode-escape', 'unicode-escape', 'undefined'):
        continue
    for token in 'aéß€ÑфЯжשعกαωžŁğ中文あ漢한':
        # Python reads some other bytes as these.
        if codec.name in ('big5', 'cp950') and token in 'фЯжあ':
            continue
        try:
            encoded = token.encode(name).removeprefix(codecs.BOM_UTF8)
        except UnicodeError:
            continue
        file = f'# coding: {name}\nOPEN_REST_API = True\nTOKEN = '.encode() + b'\x22' + encoded + b'\x22'
        print(name, file.hex(), token.encode().hex())
";

fn answer_of_parse(source: &[u8]) -> String {
    match parse(source) {
        Err(_) => "refused".to_owned(),
        Ok(Access::Disabled(DisabledReason::TokenMissing)) => "no token".to_owned(),
        Ok(Access::Disabled(_)) => "not open".to_owned(),
        Ok(Access::Open(_)) => "open".to_owned(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").unwrap();
        hex
    })
}

fn unhex(hex: &str) -> Vec<u8> {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

/// Returns the lines that a script prints which reads these lines; `None` if there is no Python.
fn lines_of_python(script: &str, lines: String) -> Option<Vec<String>> {
    let python = Command::new("python3")
        .args(["-c", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut python) = python else {
        assert!(std::env::var_os("CI").is_none(), "python3 is not installed");
        eprintln!("skipped: python3 is not installed");
        return None;
    };
    let mut stdin = python.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = String::from_utf8(python.wait_with_output().unwrap().stdout).unwrap();
    feeder.join().unwrap().unwrap();
    Some(output.lines().map(str::to_owned).collect())
}

/// Returns what Python says of each source; `None` if there is no Python.
fn answers_of_python(sources: &[&[u8]]) -> Option<Vec<String>> {
    let answers = lines_of_python(PYTHON, sources.iter().map(|source| hex(source) + "\n").collect());
    assert!(answers.as_ref().is_none_or(|answers| answers.len() == sources.len()));
    answers
}

#[test]
fn python_agrees_with_the_cases() {
    let cases = as_python();
    let sources: Vec<_> = cases.iter().map(|(_, source)| source.as_slice()).collect();
    for ((name, source), answer) in cases.iter().zip(answers_of_python(&sources).unwrap_or_default()) {
        let (answer, token) = answer.split_once("open ").map_or((&*answer, ""), |(_, token)| ("open", token));
        assert_eq!(answer_of_parse(source), answer, "{name}");
        if answer == "open" {
            let token = String::from_utf8(unhex(token)).unwrap();
            assert_eq!(parse(source), Ok(Access::Open(Token::new(&token).unwrap())), "{name}");
        }
    }
}

#[test]
fn python_agrees_with_the_files_that_were_switched_on_and_off() {
    let mut edited = Vec::new();
    for (name, source) in as_python() {
        let on = with_access(&source, true, NEW_TOKEN).ok().map(|on| on.unwrap_or(source));
        let off = on.as_ref().and_then(|on| with_access(on, false, NEW_TOKEN).ok()).flatten();
        edited.extend(on.map(|on| (name, on, true)));
        edited.extend(off.map(|off| (name, off, false)));
    }
    assert!(edited.len() > 100, "{} files", edited.len());
    let sources: Vec<_> = edited.iter().map(|(_, source, _)| source.as_slice()).collect();
    for ((name, _, is_on), answer) in edited.iter().zip(answers_of_python(&sources).unwrap_or_default()) {
        assert_eq!(answer.starts_with("open "), *is_on, "{name}: {answer}");
    }
}

/// Each name of Python is known, and what the WHATWG Encoding Standard has too is read as Python reads it.
#[test]
fn python_agrees_with_the_encodings() {
    let Some(lines) = lines_of_python(ENCODINGS, String::new()) else { return };
    let mut decoded = 0;
    for line in &lines {
        let [name, file, token] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
        let (file, token) = (unhex(file), String::from_utf8(unhex(token)).unwrap());
        match parse(&file) {
            Err(fault) if !token.is_ascii() && fault.to_string().contains("only ASCII is read") => {}
            access => {
                assert_eq!(access, Ok(Access::Open(Token::new(&token).unwrap())), "{name}: {token}");
                decoded += usize::from(!token.is_ascii());
            }
        }
    }
    assert!(lines.len() > 1_000 && decoded > 500, "{decoded} of {}", lines.len());
}

/// However a name is written, with a byte order mark or without one, and whichever byte follows.
#[test]
fn nothing_opens_in_an_encoding_in_which_python_refuses_it() {
    let mut sources = Vec::new();
    for (label, names) in include_str!("../encodings.txt").lines().filter_map(|row| row.split_once(' ')) {
        let file = |name: &str, token: &[u8]| {
            [b"# coding: ", name.as_bytes(), b"\nOPEN_REST_API = True\nTOKEN = 'a", token, b"'\n"].concat()
        };
        for name in names.split(' ') {
            let spellings = [
                name.to_owned(),
                name.replace('_', "."),
                name.replace('_', "--") + "-x",
                format!("-{name}"),
                format!("{name}-x"),
            ];
            for unmarked in spellings.map(|name| file(&name, b"")) {
                sources.push([b"\xEF\xBB\xBF", unmarked.as_slice()].concat());
                sources.push(unmarked);
            }
            // These have one byte for each character. The standard alone has two of them.
            if ["windows-", "iso-8859-", "koi8-", "mac"].iter().any(|one| label.starts_with(one)) {
                let bytes = (0..=u8::MAX)
                    .filter(|byte| ![("windows-1255", 0xCA), ("windows-874", 0xA0)].contains(&(label, *byte)));
                sources.extend(bytes.map(|byte| file(name, &[byte])));
            }
        }
    }
    sources.retain(|source| answer_of_parse(source) == "open");
    let sources: Vec<_> = sources.iter().map(Vec::as_slice).collect();
    for (source, answer) in sources.iter().zip(answers_of_python(&sources).unwrap_or_default()) {
        assert!(answer.starts_with("open"), "{}", source.escape_ascii());
    }
}
