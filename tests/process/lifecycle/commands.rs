//! Wrong arguments. The unit tests of `cli` have one of each kind; here are those that `main` sees, and those that only
//! several options together make wrong. `docs::lists` compares the help with the documents.

use crate::support::run;

/// What is said of a `--cert-name` that is none.
const NO_NAME: &str = "not the name or the address of one computer, such as raspberrypi.local";

/// Wrong arguments, and what the message says of them.
const WRONG: [(&str, &str); 25] = [
    ("", ""),
    ("serve --no-such-option", ""),
    ("listen --count -1", ""),
    ("listen --color nevr", "it is none of auto, always, never"),
    ("serve --plain --hub-publishers tcp://127.0.0.1:*", ""),
    ("serve --listen unix:/tmp/a --listen unix:/tmp/a", "twice"),
    ("serve --listen unix:/tmp/a --cert-dir /tmp", "--cert-dir"),
    ("serve --listen unix:@name", "abstract"),
    ("demo --listen unix:", "a path must follow"),
    ("serve --listen fd:2", "a number from 3 on"),
    ("serve --listen fd:x", "a number from 3 on"),
    // A certificate needs its key, and neither is for plain http.
    ("serve --tls-cert c.pem", ""),
    ("serve --tls-key k.pem", ""),
    ("serve --plain --tls-cert c.pem", ""),
    ("serve --plain --tls-key k.pem", ""),
    ("serve --plain --tls-cert c.pem --tls-key k.pem", ""),
    // No pair is made where none is needed.
    ("serve --cert-dir /nonexistent --plain", "--cert-dir"),
    ("serve --cert-dir /nonexistent --tls-cert c.pem --tls-key k.pem", "--cert-dir"),
    ("serve --cert-name pi.local --plain", "--cert-name"),
    ("serve --cert-name pi.local --tls-cert c.pem --tls-key k.pem", "--cert-name"),
    ("serve --cert-name pi.local --listen unix:/x", "--cert-name"),
    ("serve --cert-name *.local", NO_NAME),
    ("serve --cert-name=", NO_NAME),
    ("serve --cert-name pi.local:12358", NO_NAME),
    ("serve --cert-name 0.0.0.0", NO_NAME),
];

#[test]
fn wrong_arguments_are_2_with_a_message_on_stderr() {
    for (arguments, said) in WRONG {
        let output = run(arguments.split_whitespace(), 2);
        assert!(!output.stderr.trim().is_empty() && output.stderr.contains(said), "{arguments}: {}", output.stderr);
        assert_eq!(output.stdout, "", "{arguments}");
    }
}
