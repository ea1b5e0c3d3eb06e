//! Frames compared with what a subscriber reads: Python's `msgpack`, called as `codelab-adapter-client` 4.4.2 calls it.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

use super::{encode, to_json};

const PAYLOADS: [&str; 14] = [
    "{}",
    r#"{"node_id":"eim","content":"hello"}"#,
    r#"{"content":{"type":"call_service","service_data":{"entity_id":"light.lamp","brightness":255}}}"#,
    r#"{"a":[0,-0,127,128,255,256,65535,65536,4294967295,4294967296,9223372036854775807,18446744073709551615]}"#,
    r#"{"a":[-1,-32,-33,-128,-129,-32768,-32769,-2147483648,-2147483649,-9223372036854775808]}"#,
    r#"{"a":[1.0,1e2,-0.0,0.1,1e23,5e-324,1e-999,1.7976931348623157e308,9007199254740993.0,2.2250738585072011e-308]}"#,
    r#"{"a":[null,true,false,[],{},[[[]]],{"":{}}]}"#,
    r#"{"a":"\ud83d\ude00 é \u00e9 \u0000 \" \\ \/ \b\f\n\r\t","\u006b":1}"#,
    r#"{"b":1,"a":2,"b":3}"#,
    "{ \"a\" :\r\n\t[ 1 , 2 ] }",
    r#"{"a":"31 bytes are the longest fixstr"}"#,
    r#"{"a":"32 bytes are more than fixstr has"}"#,
    r#"{"__proto__":"x","中文":"内容"}"#,
    r#"{"a":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]}"#,
];

/// Reads lines of a frame and two texts of JSON, in hexadecimal. `repr` distinguishes values that `==` does not: 1, 1.0
/// and True, 0.0 and -0.0, and different orders.
const COMPARE: &str = "
import json, sys, msgpack
for line in sys.stdin:
    frame, payload, shown = map(bytes.fromhex, line.split())
    read = msgpack.unpackb(frame, raw=False)
    assert repr(read) == repr(json.loads(payload)), payload[:200]
    assert repr(read) == repr(json.loads(shown)), shown[:200]
";

#[test]
fn python_reads_the_frame_as_it_reads_the_json() {
    if !has_msgpack() {
        println!("skipped: no python3 with msgpack here");
        return;
    }
    let mut lines = String::new();
    for payload in PAYLOADS.map(str::to_owned).into_iter().chain(large()) {
        let frame = encode(&payload);
        let shown = to_json(&frame).unwrap();
        writeln!(lines, "{} {} {}", hex(&frame), hex(payload.as_bytes()), hex(shown.as_bytes())).unwrap();
    }
    let mut python = Command::new("python3").args(["-c", COMPARE]).stdin(Stdio::piped()).spawn().unwrap();
    python.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    assert!(python.wait().unwrap().success());
}

fn has_msgpack() -> bool {
    let import = Command::new("python3").args(["-c", "import msgpack"]).stderr(Stdio::null()).status();
    import.is_ok_and(|status| status.success())
}

/// Returns payloads of each class of lengths, and the deepest payload.
fn large() -> impl Iterator<Item = String> {
    let sized = [15, 16, 17, 255, 256, 65_535, 65_536].into_iter().flat_map(|members| {
        let keys: Vec<_> = (0..members).map(|key| format!("\"{key}\":[]")).collect();
        [
            format!("{{{}}}", keys.join(",")),
            format!("{{\"a\":[{}],\"b\":\"{}\"}}", "1,".repeat(members) + "2", "é".repeat(members)),
        ]
    });
    sized.chain([r#"{"a":"#.repeat(126) + "{}" + &"}".repeat(126)])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}
