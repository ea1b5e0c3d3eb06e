//! Wrong arguments. The unit tests of `cli` have one of each kind; here are those that `main` sees, and those that only
//! several options together make wrong, and what the message says of them. `docs::lists` compares the help with the
//! documents.

use std::collections::BTreeMap;

use crate::support::*;

#[test]
fn wrong_arguments_are_2_with_a_message_on_stderr() {
    let wrong = include_str!("../../data/wrong-arguments.json");
    for (arguments, said) in serde_json::from_str::<BTreeMap<String, String>>(wrong).unwrap() {
        let output = run(arguments.split_whitespace(), 2);
        assert!(!output.stderr.trim().is_empty() && output.stderr.contains(&said), "{arguments}: {}", output.stderr);
        assert_eq!(output.stdout, "", "{arguments}");
    }
}
