//! stub
use std::fmt;
pub struct Message<'b> {
    topic: &'b str,
    payload: &'b [u8],
}
impl<'b> Message<'b> {
    pub fn topic(&self) -> &str {
        self.topic
    }
    pub fn payload(&self) -> &'b [u8] {
        self.payload
    }
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    Known,
    Envelope,
}
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    Syntax { line: usize, column: usize },
    NotMessage { pointer: String },
}
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fault")
    }
}
pub fn parse(_body: &[u8], _check: Check) -> Result<Message<'_>, Fault> {
    Err(Fault::NotMessage { pointer: String::new() })
}
