//! A head, read and judged; the same head again in a pipeline is not judged again.

use crate::http::admission::{Admitted, Request, admit};
use crate::http::body::split;
use crate::http::context::Context;
use crate::http::h1::head::{HeadFault, HeadSearch};
use crate::http::problem::Problem;

/// A head that was read, with what becomes of its request.
pub(super) struct JudgedHead<'i> {
    pub(super) request: Request,
    pub(super) verdict: Result<Admitted, Problem>,
    /// What follows the head.
    pub(super) rest: &'i [u8],
}

/// The bytes of a head that was admitted, and its request.
#[derive(Clone, Copy)]
pub(super) struct AdmittedHead<'i> {
    bytes: &'i [u8],
    request: Request,
}

impl JudgedHead<'_> {
    /// Returns the head if it was admitted. `input` is what it was read from.
    pub(super) fn admitted<'i>(&self, input: &'i [u8]) -> Option<AdmittedHead<'i>> {
        let (bytes, _) = split(input, input.len() - self.rest.len());
        (self.verdict == Ok(Admitted::Message)).then_some(AdmittedHead { bytes, request: self.request })
    }
}

/// Reads and judges the head at the start of `input`. Returns none if it has not arrived yet. `previous` is the head
/// before it in the same input.
pub(super) fn judge_head<'i, P>(
    search: &mut HeadSearch,
    input: &'i [u8],
    previous: Option<AdmittedHead<'_>>,
    context: &Context<P>,
) -> Result<Option<JudgedHead<'i>>, HeadFault> {
    // A pipeline often repeats its head. The same bytes under the same token and policy are admitted again.
    if let Some(AdmittedHead { bytes, request }) = previous
        && let Some(rest) = input.strip_prefix(bytes)
    {
        return Ok(Some(JudgedHead { request, verdict: Ok(Admitted::Message), rest }));
    }
    let Some((head, end)) = search.read(input, context.policy.head_bytes)? else { return Ok(None) };
    let (_, rest) = split(input, end);
    let request = Request::new(&head, &context.policy);
    let verdict = admit(&head, context.token.as_ref(), &context.policy);
    Ok(Some(JudgedHead { request, verdict, rest }))
}
