//! A head that arrives whole is read.

use std::hint::black_box;

use adapter_gateway::http::h1::RequestFault;
use adapter_gateway::http::h1::head::{Head, HeadSearch};
use adapter_gateway::http::h1::request::Framing;
use gungraun::{library_benchmark, library_benchmark_group};

use super::inputs::{BODY, BROWSER_HEAD, WRK_HEAD};

library_benchmark_group!(name = heads, benchmarks = [parse]);

#[library_benchmark(setup = checked)]
#[bench::wrk(WRK_HEAD)]
#[bench::browser(BROWSER_HEAD)]
fn parse(head: &'static str) {
    black_box(&read(black_box(head)));
}

fn checked(head: &'static str) -> &'static str {
    let (read, head_bytes) = read(head).unwrap().unwrap();
    assert_eq!((read.request.framing, head_bytes), (Framing::Length(BODY.len() as u64), head.len()));
    head
}

fn read(head: &str) -> Result<Option<(Head<'_>, usize)>, RequestFault> {
    let mut search = HeadSearch::START;
    search.read(head.as_bytes(), head.len(), false)
}
