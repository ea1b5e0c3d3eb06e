use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::super::{MAX_DEPTH, MAX_POINTER_BYTES};
use super::{Check, Fault, accept, not_json, parse, refuse};
use crate::terms::limits::MAX_TOPIC_BYTES;

fn arrays(levels: usize) -> String {
    "[".repeat(levels) + &"]".repeat(levels)
}

fn objects(levels: usize) -> String {
    r#"{"":"#.repeat(levels - 1) + "{}" + &"}".repeat(levels - 1)
}

fn envelope(payload: &str, ignored: &str) -> String {
    format!(r#"{{"topic":"x","payload":{payload},"ignored":{ignored}}}"#)
}

#[test]
fn topic_at_the_limit_and_past_it() {
    let body = |topic: &str| format!(r#"{{"topic":"{topic}","payload":{{}}}}"#);
    accept(&body(&"t".repeat(MAX_TOPIC_BYTES)));
    accept(&body(&"é".repeat(MAX_TOPIC_BYTES / 2)));
    accept(&body(&"\\u0074".repeat(MAX_TOPIC_BYTES)));
    for past in ["t".repeat(1_025), "é".repeat(512) + "t", "\\u0074".repeat(1_025)] {
        refuse(&body(&past), "/topic", "`topic` must be at most 1024 bytes");
    }
}

#[test]
fn depth_at_the_limit() {
    accept(&envelope("{}", &arrays(MAX_DEPTH - 1)));
    accept(&envelope("{}", &objects(MAX_DEPTH - 1)));
    accept(&envelope(&objects(MAX_DEPTH - 1), "0"));
    accept(&envelope(&format!(r#"{{"a":{}}}"#, arrays(MAX_DEPTH - 2)), "0"));
}

#[test]
fn depth_past_the_limit() {
    let detail = "nesting deeper than 128 levels";
    let zeros = "/0".repeat(124);
    refuse(&envelope("{}", &arrays(MAX_DEPTH)), &format!("/ignored{zeros}"), detail);
    refuse(&envelope("{}", &objects(MAX_DEPTH)), &format!("/ignored{}", "/".repeat(127)), detail);
    refuse(&envelope(&objects(MAX_DEPTH), "0"), &format!("/payload{}", "/".repeat(127)), detail);
    let payload = format!(r#"{{"a":[1,{}]}}"#, arrays(MAX_DEPTH - 2));
    refuse(&envelope(&payload, "0"), &format!("/payload/a/1{}", "/0".repeat(122)), detail);
    refuse(&arrays(MAX_DEPTH + 1), &"/0".repeat(128), detail);
}

#[test]
fn depth_counts_what_is_open_not_what_was() {
    let flat = format!("[{}]", "[[]],{\"a\":{}},".repeat(500) + "0");
    accept(&envelope("{}", &flat));
    accept(&envelope(&format!(r#"{{"a":"{}"}}"#, "[{".repeat(500)), "0"));
}

#[test]
fn pointer_names_the_innermost_place_that_fits() {
    let long_key = "k".repeat(MAX_POINTER_BYTES);
    let deep = arrays(MAX_DEPTH - 2);
    let body = format!(r#"{{"a~/":[0,{{"{long_key}":{deep}0}}]}}"#).replace("]0}", "]}");
    accept(&envelope("{}", &body.replace(&deep, "0")));
    refuse(&body.replace(&deep, &arrays(MAX_DEPTH)), "/a~0~1/1", "nesting deeper than 128 levels");
}

#[test]
fn syntax_counts_before_depth() {
    not_json("[".repeat(300), "unexpected end of the body at line 1, column 301");
    not_json(arrays(300) + "x", "expected the end of the body at line 1, column 601");
}

/// A megabyte of anything is refused without recursion and in linear time, which is the time of this thread alone. Eight
/// times as many bytes take eight times as long, and 64 times as long if the time is quadratic.
#[test]
fn hostile_megabytes_take_linear_time() {
    const MOST_TIMES_AS_LONG: u32 = 24;
    // Shorter times depend on what is in the caches of the processor.
    const SHORTEST: Duration = Duration::from_millis(1);
    fn in_topic(text: &str) -> String {
        format!(r#"{{"topic":"{text}","payload":{{}}}}"#)
    }
    let bodies: [fn(usize) -> String; 16] = [
        |bytes| "[".repeat(bytes),
        |bytes| r#"{"":"#.repeat(bytes / 4),
        |bytes| arrays(bytes / 2),
        |bytes| objects(bytes / 5),
        |bytes| envelope("{}", &arrays(bytes / 2)),
        |bytes| format!("[{}0]", "[],".repeat(bytes / 3)),
        |bytes| format!("[{}0]", "{\"a\":0},".repeat(bytes / 8)),
        |bytes| in_topic(&"\\ud800".repeat(bytes / 6)),
        |bytes| in_topic(&"\\ud83d\\ude00".repeat(bytes / 12)),
        |bytes| in_topic(&"\\\\ud8".repeat(bytes / 6)),
        |bytes| format!("\"{}\"", "a".repeat(bytes)),
        |bytes| format!(r#"{{"{}":"\ud800"}}"#, "\\n".repeat(bytes / 2)),
        |bytes| format!("{{{}\"z\":0}}", "\"topic\":1,".repeat(bytes / 10)),
        |bytes| format!("{{{}\"z\":0}}", "\"topi\\u0063\":1,".repeat(bytes / 15)),
        |bytes| "\n".repeat(bytes),
        |bytes| "9".repeat(bytes),
    ];
    let fault_and_time = |body: &str| {
        let start = clock_gettime(ClockId::ThreadCPUTime);
        let fault = parse(body.as_bytes(), Check::Known).unwrap_err();
        let taken = clock_gettime(ClockId::ThreadCPUTime) - start;
        (fault, Duration::try_from(taken).unwrap())
    };
    for body in bodies {
        let (eighth, megabyte) = (body(1 << 17), body(1 << 20));
        let (_, shorter) = fault_and_time(&eighth);
        let (fault, taken) = fault_and_time(&megabyte);
        let begins = megabyte.get(..8);
        assert!(taken < MOST_TIMES_AS_LONG * shorter.max(SHORTEST), "{taken:?} after {shorter:?} for {begins:?}");
        assert!(fault.reason().len() < 100, "{fault:?} for {begins:?}");
        if let Fault::NotMessage { pointer, .. } = fault {
            assert!(pointer.len() <= MAX_POINTER_BYTES);
        }
    }
}
