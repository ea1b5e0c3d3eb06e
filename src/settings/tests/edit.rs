//! A file is switched on and off, and nothing else of it changes.

use super::cases::{as_python, unlike_python};
use crate::settings::{Access, DisabledReason, MAX_FILE_BYTES, SettingsFault, parse, with_access};
use crate::terms::token::Token;

/// The token that is put where there is none.
pub(super) const NEW_TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn switched(source: &str, is_open: bool) -> Result<Option<String>, SettingsFault> {
    let edited = with_access(source.as_bytes(), is_open, NEW_TOKEN)?;
    Ok(edited.map(|edited| String::from_utf8(edited).unwrap()))
}

#[test]
fn the_value_is_replaced_and_nothing_else() {
    let both = format!("OPEN_REST_API = True\nTOKEN = \"{NEW_TOKEN}\"\n");
    for (before, after) in [
        ("", both.clone()),
        ("TOKEN = 'abc'\n", "TOKEN = 'abc'\nOPEN_REST_API = True\n".into()),
        ("TOKEN = 'abc'", "TOKEN = 'abc'\nOPEN_REST_API = True\n".into()),
        ("OPEN_REST_API=False # no\r\nTOKEN = 'é'\r\n", "OPEN_REST_API=True # no\r\nTOKEN = 'é'\r\n".into()),
        ("x = 1\r\n", format!("x = 1\r\n{}", both.replace('\n', "\r\n"))),
        (
            "x = 1\rTOKEN=''\rOPEN_REST_API: bool = (0)",
            format!("x = 1\rTOKEN=\"{NEW_TOKEN}\"\rOPEN_REST_API: bool = (True)"),
        ),
        (
            "OPEN_REST_API = True\nTOKEN = None; y = 2\n",
            format!("OPEN_REST_API = True\nTOKEN = \"{NEW_TOKEN}\"; y = 2\n"),
        ),
        (
            "TOKEN = 'a'\nOPEN_REST_API = 1\nOPEN_REST_API = 'no'\n",
            "TOKEN = 'a'\nOPEN_REST_API = 1\nOPEN_REST_API = True\n".into(),
        ),
        ("TOKEN: str\nOPEN_REST_API = False\n", format!("TOKEN: str\nOPEN_REST_API = True\nTOKEN = \"{NEW_TOKEN}\"\n")),
        // What a function or a class has under the name is no value that could be replaced.
        (
            "TOKEN = 'a'\ndef f(OPEN_REST_API):\n    OPEN_REST_API = 1\nclass C:\n    import OPEN_REST_API\n",
            "TOKEN = 'a'\ndef f(OPEN_REST_API):\n    OPEN_REST_API = 1\nclass C:\n    import OPEN_REST_API\nOPEN_REST_API = True\n"
                .into(),
        ),
        ("OPEN_REST_API = 0\nTOKEN = 'a'\nif OPEN_REST_API: x\n", "OPEN_REST_API = True\nTOKEN = 'a'\nif OPEN_REST_API: x\n".into()),
        // Nor is there one where the name is used, or is that of an attribute.
        (
            "TOKEN = 'a'\nprint(OPEN_REST_API)\nx.OPEN_REST_API = 1\n",
            "TOKEN = 'a'\nprint(OPEN_REST_API)\nx.OPEN_REST_API = 1\nOPEN_REST_API = True\n".into(),
        ),
    ] {
        assert_eq!(switched(before, true), Ok(Some(after.clone())), "{before:?}");
        assert_eq!(switched(&after, true), Ok(None), "{after:?}");
        let off = switched(&after, false).unwrap().unwrap();
        assert_eq!(off.len(), after.len() + 1, "{off:?}");
        assert_eq!(switched(&off, true), Ok(Some(after)), "{off:?}");
    }
    assert_eq!((switched("", false), switched("OPEN_REST_API = 0\n", false)), (Ok(None), Ok(None)));
}

#[test]
fn the_bytes_of_every_encoding_stay() {
    for (before, after) in [
        (
            &b"# coding: latin-1\n# \xe9\nOPEN_REST_API = False # \xe9\nTOKEN = '\xe9'\n"[..],
            &b"# coding: latin-1\n# \xe9\nOPEN_REST_API = True # \xe9\nTOKEN = '\xe9'\n"[..],
        ),
        (
            b"\xEF\xBB\xBF# \xC3\xA9\r\nTOKEN = 'a'\r\nOPEN_REST_API = False",
            b"\xEF\xBB\xBF# \xC3\xA9\r\nTOKEN = 'a'\r\nOPEN_REST_API = True",
        ),
        (
            b"# coding: gbk\r\nX = '\xD6\xD0'; OPEN_REST_API = False # \xCE\xC4\r\nTOKEN = 'a'\r\n",
            b"# coding: gbk\r\nX = '\xD6\xD0'; OPEN_REST_API = True # \xCE\xC4\r\nTOKEN = 'a'\r\n",
        ),
        (
            b"# coding: iso2022_jp\nX = '\x1B$B$\"\x1B(B'; OPEN_REST_API = False\nTOKEN = 'a'",
            b"# coding: iso2022_jp\nX = '\x1B$B$\"\x1B(B'; OPEN_REST_API = True\nTOKEN = 'a'",
        ),
        (b"\xEF\xBB\xBFTOKEN = 'a'", b"\xEF\xBB\xBFTOKEN = 'a'\nOPEN_REST_API = True\n"),
    ] {
        assert_eq!(with_access(before, true, NEW_TOKEN), Ok(Some(after.to_vec())));
    }
}

#[test]
fn a_name_that_is_bound_otherwise_is_assigned_at_the_end() {
    for source in [
        "A = OPEN_REST_API = False",
        "\nOPEN_REST_API, x = False, 1",
        "OPEN_REST_API = False\nif x:\n    OPEN_REST_API = False",
        "OPEN_REST_API = False\nimport a.b as OPEN_REST_API",
        "OPEN_REST_API = False\nfrom a import OPEN_REST_API",
        "OPEN_REST_API = False\ndef OPEN_REST_API(): pass",
        "OPEN_REST_API = False\nclass OPEN_REST_API: pass",
        "OPEN_REST_API = False\nfor OPEN_REST_API in []: pass",
        "OPEN_REST_API = False\nwith x as OPEN_REST_API: pass",
        "OPEN_REST_API = False\ntry: x\nexcept E as OPEN_REST_API: pass",
        "OPEN_REST_API = False\nmatch x:\n    case [*OPEN_REST_API]: pass",
        "OPEN_REST_API = False\nmatch x:\n    case {**OPEN_REST_API}: pass",
        "OPEN_REST_API = False\nmatch x:\n    case 1 as OPEN_REST_API: pass",
        "OPEN_REST_API = False\n(OPEN_REST_API := 1)",
        "OPEN_REST_API = False\ndel OPEN_REST_API",
        "OPEN_REST_API = False\ndef f():\n    global OPEN_REST_API",
        "OPEN_REST_API = False\nclass C:\n    def f():\n        global OPEN_REST_API\n        OPEN_REST_API = 1",
        "OPEN_REST_API = False\nif x:\n    def OPEN_REST_API(): pass",
        "'''\nOPEN_REST_API = False\n'''",
        "OPEN_REST_API = False\nx.OPEN_REST_API = 1",
        "OPEN_REST_API = False\ndef f(OPEN_REST_API): pass",
    ] {
        let source = format!("TOKEN = 'a'\n{source}");
        let on = switched(&source, true).unwrap().unwrap();
        assert_eq!(on, format!("{source}\nOPEN_REST_API = True\n"));
        assert_eq!(switched(&on, false), Ok(Some(format!("{source}\nOPEN_REST_API = False\n"))));
    }
    let token = "OPEN_REST_API = True\nTOKEN = a = ''";
    assert_eq!(switched(token, true), Ok(Some(format!("{token}\nTOKEN = \"{NEW_TOKEN}\"\n"))));
    for refused in ["OPEN_REST_API = (", "x = 1\\\n", &"#".repeat(MAX_FILE_BYTES)] {
        assert!(switched(refused, true).is_err(), "a file that Python or the gateway refuses, perhaps afterwards");
    }
}

/// Each file of the tests that can be edited says what was asked for, and differs in two lines at most.
#[test]
fn every_file_of_the_tests_can_be_switched_on_and_off() {
    let mut edited = 0;
    for (name, source) in as_python().into_iter().chain(unlike_python()) {
        let Ok(Some(on)) = with_access(&source, true, NEW_TOKEN) else { continue };
        edited += 1;
        let token = match parse(&source).unwrap() {
            Access::Disabled(DisabledReason::NotOpen { has_token: true, .. }) => None,
            _ => Token::new(NEW_TOKEN),
        };
        let access = parse(&on).unwrap();
        assert!(matches!(&access, Access::Open(now) if token.is_none_or(|token| token == *now)), "{name}: {access:?}");
        let off = with_access(&on, false, NEW_TOKEN).unwrap().unwrap();
        assert!(matches!(parse(&off), Ok(Access::Disabled(DisabledReason::NotOpen { has_token: true, .. }))), "{name}");
        let lines = |bytes: &[u8]| -> Vec<Vec<u8>> {
            bytes.split(|byte| matches!(byte, b'\r' | b'\n')).map(<[u8]>::to_vec).collect()
        };
        let (before, after) = (lines(&source), lines(&on));
        let changed = before.iter().zip(&after).filter(|(before, after)| before != after).count();
        assert!(changed <= 2 && after.len() <= before.len() + 3, "{name}: {changed} lines");
    }
    assert!(edited > 15, "{edited} files");
}
