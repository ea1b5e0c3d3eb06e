//! Finds where requests end: httparse parses the heads, and `Content-Length` frames the bodies. Nothing else is
//! checked.

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

/// The input is not HTTP, or its body has another framing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unframed;

impl Requests {
    /// Takes the next input of a connection, which may begin and end anywhere. Returns how many requests end in it.
    pub(crate) fn ends_in(&mut self, input: &[u8]) -> Result<usize, Unframed> {
        if self.head.is_empty() {
            return self.count_ends(input);
        }
        let mut held = std::mem::take(&mut self.head);
        held.extend_from_slice(input);
        self.count_ends(&held)
    }

    fn count_ends(&mut self, mut rest: &[u8]) -> Result<usize, Unframed> {
        let mut ended = 0;
        while !rest.is_empty() {
            let body = match self.body.take() {
                Some(body) => body,
                None => match framing(rest)? {
                    Some((behind, body)) => {
                        rest = behind;
                        body
                    }
                    None => {
                        self.head = rest.to_vec();
                        break;
                    }
                },
            };
            match rest.split_at_checked(body) {
                Some((_, behind)) => {
                    ended += 1;
                    rest = behind;
                }
                None => {
                    self.body = Some(body - rest.len());
                    break;
                }
            }
        }
        Ok(ended)
    }
}

/// Returns what follows the head that `bytes` begin with, and the length of the body. Returns `None` if the head has no
/// end yet.
fn framing(bytes: &[u8]) -> Result<Option<(&[u8], usize)>, Unframed> {
    let mut fields = [const { MaybeUninit::uninit() }; FIELD_LINES];
    let mut request = Request::new(&mut []);
    match request.parse_with_uninit_headers(bytes, &mut fields) {
        Ok(Status::Complete(head)) => {
            let length = request.headers.iter().find(|field| field.name.eq_ignore_ascii_case("content-length"));
            let body = length.map_or(Some(0), |field| str::from_utf8(field.value).ok()?.parse().ok());
            Ok(bytes.get(head..).zip(body).map(Some).ok_or(Unframed)?)
        }
        Ok(Status::Partial) => Ok(None),
        Err(_) => Err(Unframed),
    }
}
