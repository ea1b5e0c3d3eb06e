//! A head that arrives whole is read.

use std::hint::black_box;

use adapter_gateway::proto::http1::fields::Framing;
use adapter_gateway::proto::http1::head::{Head, HeadSearch};
use gungraun::{library_benchmark, library_benchmark_group};

use super::inputs::{BODY, BROWSER_HEAD, WRK_HEAD};

library_benchmark_group!(name = heads, benchmarks = [parse]);

#[library_benchmark(setup = checked)]
#[bench::wrk(WRK_HEAD)]
#[bench::browser(BROWSER_HEAD)]
fn parse(head: &'static str) -> Head<'static> {
    black_box(read(black_box(head)))
}

fn checked(head: &'static str) -> &'static str {
    assert_eq!(read(head).fields.framing, Framing::Length(BODY.len() as u64));
    head
}

fn read(head: &'static str) -> Head<'static> {
    let mut search = HeadSearch::START;
    let (read, head_bytes) = search.read(head.as_bytes(), head.len()).unwrap().unwrap();
    assert_eq!(head_bytes, head.len());
    read
}
