//! What the folder `zmq-sys` declares is what libzmq's header declares. A C compiler reads the header, and then each
//! declaration of ours: a constant and a layout as an assertion, a function as a second declaration. It makes no
//! program. It is the compiler of this machine, so the test cannot compare what is built for another one. There, an
//! assertion in `zmq-sys` holds the layout of a message; constants and functions are the same everywhere.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used, reason = "a test that fails")]

use std::fmt::Write as _;
use std::io::Write as _;
use std::mem::offset_of;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use zmq_sys::{zmq_msg_t, zmq_pollitem_t};

const CONSTANTS: &str = include_str!("../zmq-sys/src/constants.rs");
const ERRORS: &str = include_str!("../zmq-sys/src/errno.rs");
const FUNCTIONS: &str = include_str!("../zmq-sys/src/functions.rs");

/// Returns the directory of the header of the libzmq that is built.
fn header_directory() -> PathBuf {
    // Without the filter cargo asks for the crates of other systems too, which it has not downloaded for a build.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let arguments = ["metadata", "--locked", "--offline", "--format-version", "1", "--filter-platform", &platform];
    let cargo = Command::new(env!("CARGO")).args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().unwrap();
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&cargo.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let source = packages.iter().find(|package| package["name"] == "zeromq-src").unwrap();
    Path::new(source["manifest_path"].as_str().unwrap()).with_file_name("vendor").join("include")
}

/// Returns the names and the values of the constants in a file. A value is an expression of C too.
fn constants(file: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    file.lines().filter_map(|line| line.trim_start_matches("pub ").strip_prefix("const ")).map(|declaration| {
        let (name, typed_value) = declaration.trim_end_matches(';').split_once(": ").unwrap();
        (name, typed_value.split_once(" = ").unwrap().1)
    })
}

/// Returns the type of C for a type of a declaration.
fn c_type(rust: &str) -> String {
    if let Some(target) = rust.strip_prefix("*const ") {
        return format!("const {} *", c_type(target));
    }
    if let Some(target) = rust.strip_prefix("*mut ") {
        return format!("{} *", c_type(target));
    }
    match rust {
        "usize" => "size_t".into(),
        "u8" => "uint8_t".into(),
        "Option<zmq_free_fn>" => "zmq_free_fn *".into(),
        "zmq_msg_t" | "zmq_pollitem_t" => rust.into(),
        _ => rust.strip_prefix("c_").unwrap_or_else(|| panic!("no type of C is known for {rust}")).into(),
    }
}

/// Returns the declarations of a file's functions in C.
fn functions(file: &str) -> impl Iterator<Item = String> {
    file.split("pub fn ").skip(1).map(|text| {
        let (name, rest) = text.split_once(';').unwrap().0.split_once('(').unwrap();
        let (arguments, result) = rest.split_once(')').unwrap();
        let arguments = arguments.split(',').filter_map(|argument| argument.split_once(": "));
        let arguments: Vec<_> = arguments.map(|(_, rust)| c_type(rust)).collect();
        let arguments = if arguments.is_empty() { "void".into() } else { arguments.join(", ") };
        let result = result.strip_prefix(" -> ").map_or_else(|| "void".into(), c_type);
        format!("{result} {name}({arguments});")
    })
}

/// Returns an assertion of C for the size, the alignment and the fields of a type.
macro_rules! layout {
    ($name:ident $($field:ident)*) => {{
        let (name, size, alignment) = (stringify!($name), size_of::<$name>(), align_of::<$name>());
        let mut text = format!("_Static_assert(sizeof({name}) == {size} && _Alignof({name}) == {alignment}");
        for (field, offset) in [$((stringify!($field), offset_of!($name, $field))),*] as [(&str, usize); _] {
            write!(text, " && offsetof({name}, {field}) == {offset}").unwrap();
        }
        text + ", \"" + name + "\");\n"
    }};
}

/// Returns all declarations, for a C compiler.
fn comparison() -> String {
    let (mut without, mut text) = (String::from("#include <errno.h>\n"), String::from("#include <zmq.h>\n"));
    for (name, value) in constants(CONSTANTS).chain(constants(ERRORS)) {
        // The header defines these errors where the system has none of the name.
        let in_header = name.trim_end_matches("_ALT");
        if in_header != name {
            writeln!(without, "#undef {in_header}").unwrap();
        }
        writeln!(text, "_Static_assert({in_header} == {value}, \"{name}\");").unwrap();
    }
    // A function of ours has that name, and calls it.
    let declarations = FUNCTIONS.replace("fn new_context", "pub fn zmq_ctx_new");
    for function in functions(&declarations) {
        writeln!(text, "{function}").unwrap();
    }
    text += "zmq_free_fn release;\nvoid release(void *, void *);\n";
    without + &text + &layout!(zmq_msg_t) + &layout!(zmq_pollitem_t socket fd events revents)
}

/// Returns what the compiler has against a text, or nothing.
fn faults(directory: &Path, text: &str) -> String {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let mut compiler = Command::new(compiler)
        .args(["-std=c11", "-fsyntax-only", "-Wall", "-Werror", "-x", "c", "-I"])
        .args([directory, Path::new("-")])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    compiler.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = compiler.wait_with_output().unwrap();
    let faults = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.success(), faults.is_empty(), "{faults}");
    faults
}

#[test]
fn the_declarations_are_those_of_the_header() {
    assert_eq!(faults(&header_directory(), &comparison()), "");
}

/// Without this, a comparison that compares nothing would pass.
#[test]
fn a_declaration_that_differs_from_the_header_is_found() {
    let (directory, text) = (header_directory(), comparison());
    let alignment = align_of::<zmq_msg_t>();
    for (declared, other) in [
        ("(ZMQ_PUB == 1,", "(ZMQ_PUB == 2,"),
        ("(ZMQ_EVENT_ALL == 0xFFFF,", "(ZMQ_EVENT_ALL == 0xFFF,"),
        ("(ETERM == ZMQ_HAUSNUMERO + 53,", "(ETERM == ZMQ_HAUSNUMERO + 54,"),
        ("(ENOTSUP == ZMQ_HAUSNUMERO + 1,", "(ENOTSUP == ZMQ_HAUSNUMERO + 2,"),
        ("sizeof(zmq_msg_t) == 64", "sizeof(zmq_msg_t) == 32"),
        (&format!("_Alignof(zmq_msg_t) == {alignment}"), "_Alignof(zmq_msg_t) == 1"),
        ("offsetof(zmq_pollitem_t, socket) == 0", "offsetof(zmq_pollitem_t, fd) == 0"),
        ("int zmq_bind(void *, const char *);", "int zmq_bind(void *, char *);"),
        ("void * zmq_ctx_new(void);", "int zmq_ctx_new(void);"),
        ("size_t zmq_msg_size(", "int zmq_msg_size("),
        ("void zmq_version(int *, int *, int *);", "void zmq_version(int *, int *);"),
        ("zmq_free_fn *, void *);", "void *, void *);"),
        ("void release(void *, void *);", "void release(void *);"),
    ] {
        assert_eq!(text.matches(declared).count(), 1, "{declared}\n{text}");
        assert_ne!(faults(&directory, &text.replace(declared, other)), "", "{other}");
    }
}
