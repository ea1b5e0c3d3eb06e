//! Wrong arguments. `docs::tables` compares the help with the documents.

use crate::support::process::run;

/// Wrong arguments, and what the message says of them.
const WRONG: [(&str, &str); 39] = [
    ("", ""),
    ("serve --no-such-option", ""),
    ("serve --workers many", ""),
    ("serve --workers 0", ""),
    ("serve --listen localhost", ""),
    ("serve --encoding xml", ""),
    ("serve --check nothing", ""),
    ("serve --io magic", ""),
    ("listen --count -1", ""),
    // A mistyped command, option or value names the nearest.
    ("sreve", "did you mean serve?"),
    ("serve --listne 127.0.0.1:0", "did you mean --listen?"),
    ("serve --io ep0ll", "did you mean epoll?"),
    ("listen --color nevr", "did you mean never?"),
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
    ("serve --cert-dir /nonexistent --listen unix:/x", "--cert-dir"),
    ("serve --cert-name pi.local --plain", "--cert-name"),
    ("serve --cert-name pi.local --tls-cert c.pem --tls-key k.pem", "--cert-name"),
    ("serve --cert-name pi.local --listen unix:/x", "--cert-name"),
    ("serve --cert-name *.local", "--cert-name"),
    ("serve --cert-name *.local", "raspberrypi.local"),
    ("serve --cert-name=", "--cert-name"),
    ("serve --cert-name=", "raspberrypi.local"),
    ("serve --cert-name pi.local:12358", "--cert-name"),
    ("serve --cert-name pi.local:12358", "raspberrypi.local"),
    ("serve --cert-name 0.0.0.0", "--cert-name"),
    ("serve --cert-name 0.0.0.0", "raspberrypi.local"),
];

#[test]
fn wrong_arguments_are_2_with_a_message_on_stderr() {
    for (arguments, said) in WRONG {
        let (code, output) = run(arguments.split_whitespace());
        assert_eq!(code, 2, "{arguments}");
        assert!(!output.stderr.trim().is_empty() && output.stderr.contains(said), "{arguments}: {}", output.stderr);
        assert_eq!(output.stdout, "", "{arguments}");
    }
}
