//! Finds where requests end: httparse parses the heads, and `Content-Length` frames the bodies. Nothing else is
//! checked.

use std::io;
use std::mem::MaybeUninit;

use httparse::{Request, Status};

const FIELD_LINES: usize = 64;

#[derive(Default)]
pub(crate) struct Requests {
    /// The beginning of a head whose end has not come yet.
    head: Vec<u8>,
    /// How many bytes of a body have not come yet.
    body: Option<usize>,
}

impl Requests {
    /// Takes the next input of a connection, which may begin and end anywhere. Writes `answer` for each request that
    /// ends in it into `output`, in place of what is there. Fails if the input is not HTTP, or its body has another
    /// framing.
    pub(crate) fn answer(&mut self, input: &[u8], answer: &[u8], output: &mut Vec<u8>) -> io::Result<()> {
        output.clear();
        let mut held = std::mem::take(&mut self.head);
        let mut rest = input;
        if !held.is_empty() {
            held.extend_from_slice(input);
            rest = &held;
        }
        while !rest.is_empty() {
            let body = match self.body.take() {
                Some(body) => body,
                None => {
                    let Some((behind, body)) = framing(rest)? else {
                        self.head = rest.to_vec();
                        break;
                    };
                    rest = behind;
                    body
                }
            };
            let Some((_, behind)) = rest.split_at_checked(body) else {
                self.body = Some(body - rest.len());
                break;
            };
            output.extend_from_slice(answer);
            rest = behind;
        }
        Ok(())
    }
}

/// Returns what follows the head that `bytes` begin with, and the length of the body. Returns `None` if the head has no
/// end yet.
fn framing(bytes: &[u8]) -> io::Result<Option<(&[u8], usize)>> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELD_LINES];
    let mut request = Request::new(&mut []);
    let parsed = request.parse_with_uninit_headers(bytes, &mut fields).map_err(io::Error::other)?;
    let Status::Complete(head) = parsed else { return Ok(None) };
    let length = request.headers.iter().find(|field| field.name.eq_ignore_ascii_case("content-length"));
    let body = length.map_or(Some(0), |field| str::from_utf8(field.value).ok()?.parse().ok());
    bytes.get(head..).zip(body).map(Some).ok_or_else(|| io::Error::other("a length that is no number"))
}
