//! Wrong arguments. `docs::tables` compares the help with the documents.

use crate::support::process::run;

#[test]
fn wrong_arguments_are_2_with_a_message_on_stderr() {
    let wrong: [&[&str]; 10] = [
        &[],
        &["sreve"],
        &["serve", "--no-such-option"],
        &["serve", "--workers", "many"],
        &["serve", "--workers", "0"],
        &["serve", "--listen", "localhost"],
        &["serve", "--encoding", "xml"],
        &["serve", "--check", "nothing"],
        &["serve", "--io", "magic"],
        &["listen", "--count", "-1"],
    ];
    for arguments in wrong {
        let (code, output) = run(arguments.iter().copied());
        assert_eq!(code, 2, "{arguments:?}");
        assert!(!output.stderr.trim().is_empty(), "{arguments:?}");
        assert_eq!(output.stdout, "", "{arguments:?}");
    }
}

#[test]
fn a_mistyped_command_option_or_value_names_the_nearest() {
    for (arguments, meant) in [
        (&["sreve"][..], "serve"),
        (&["serve", "--listne", "127.0.0.1:0"], "--listen"),
        (&["serve", "--io", "ep0ll"], "epoll"),
        (&["listen", "--color", "nevr"], "never"),
    ] {
        let (code, output) = run(arguments.iter().copied());
        assert_eq!(code, 2, "{arguments:?}");
        assert!(output.stderr.contains(&format!("did you mean {meant}?")), "{arguments:?}: {}", output.stderr);
    }
}
