//! What docs/design.md says about the crates that the program is built of.

use std::collections::BTreeSet;
use std::process::Command;

use super::document::Document;

#[test]
fn the_program_is_built_of_as_many_crates_as_the_design_says() {
    let arguments =
        "tree --locked --offline --edges normal,no-proc-macro --prefix none --target x86_64-unknown-linux-gnu";
    let cargo = Command::new(env!("CARGO")).args(arguments.split(' ')).current_dir(env!("CARGO_MANIFEST_DIR")).output();
    let cargo = cargo.unwrap();
    assert!(cargo.status.success(), "{}", String::from_utf8_lossy(&cargo.stderr));
    let tree = String::from_utf8(cargo.stdout).unwrap();
    let package = |line: &str| line.split(' ').take(2).map(str::to_owned).collect::<Vec<_>>();
    let crates: BTreeSet<_> = tree.lines().map(package).filter(|package| package[0] != "adapter-gateway").collect();
    let sentence = format!("is built of {} crates beside its own", crates.len());
    assert!(Document::read("docs/design.md").text.contains(&sentence), "docs/design.md does not say: {sentence}");
}
