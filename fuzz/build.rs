//! Unpacks `seeds` and `found` into `corpus`, which `cargo fuzz run TARGET` starts from and adds to, and git ignores.

use std::fs;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::io;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

#[path = "../tests/support/written.rs"]
mod written;

fn main() {
    // Cargo runs this again if one of them changes, and also if the corpus does not exist.
    for path in ["seeds", "found", MARK] {
        println!("cargo:rerun-if-changed={path}");
    }
    unpack().expect("the corpus can be unpacked");
}

/// An empty file in the corpus. It is missing if somebody removed the corpus.
const MARK: &str = "corpus/.unpacked";

fn unpack() -> io::Result<()> {
    for seeds in fs::read_dir("seeds")? {
        let seeds = seeds?;
        let corpus = Path::new("corpus").join(seeds.file_name());
        fs::create_dir_all(&corpus)?;
        for (name, lines) in written::sections(&fs::read_to_string(seeds.path())?) {
            fs::write(corpus.join(format!("seed-{name}")), written::bytes(lines))?;
        }
        for line in fs::read_to_string(Path::new("found").join(seeds.file_name()))?.lines() {
            let input = STANDARD.decode(line).map_err(|fault| io::Error::other(fault.to_string()))?;
            fs::write(corpus.join(name(&input)), input)?;
        }
    }
    fs::write(MARK, "")
}

/// Returns the same name for the same bytes, so that a change of `found` adds files and replaces none.
fn name(input: &[u8]) -> String {
    format!("found-{:016x}", BuildHasherDefault::<DefaultHasher>::default().hash_one(input))
}
