use super::*;
#[test]
fn smoke() {
    assert_eq!(
        parse(br#"{"topic":"a","payload":{}}"#, Check::Known)
            .unwrap()
            .payload(),
        b"{}"
    );
}
