//! The log, and what stands on a terminal. A parent that does not read, or reads late, holds nothing up.

use super::*;

const BROKEN: &str = "OPEN_REST_API = True\nTOKEN = (\n";

fn wait_until_it_listens(address: SocketAddr, listens: bool) {
    // A connection that is tried while the listener closes is refused a second later, so the kernel is asked instead.
    let is_listener = |socket: TcpSocket| socket.listens && socket.local == address;
    wait_until("the port opens or closes", || tcp_sockets().into_iter().any(is_listener) == listens);
    assert_eq!(TcpStream::connect(address).is_ok(), listens);
}

/// Returns how many rejected settings a log tells of, with the lines that it says were dropped.
fn lines_told_of(log: &str) -> usize {
    let dropped_in = |line: &str| {
        let (number, _) = line.strip_prefix("warning: ")?.split_once(" lines were dropped")?;
        number.parse::<usize>().ok()
    };
    log.lines().filter_map(dropped_in).sum::<usize>() + log.matches("the last good settings stay in force").count()
}

#[test]
fn a_log_that_is_read_late_tells_how_many_lines_were_dropped() {
    const REJECTIONS: usize = 1500;
    let (mut late, stderr) = FullPipe::new();
    let mut gateway = Gateway::serve().token(&token("old")).stderr(stderr).start();
    let mut client = gateway.client();
    assert_eq!(client.status_with(&token("old")), 200);
    gateway.change_token("new");
    assert_eq!(client.status_with(&token("new")), 200);
    assert_eq!(client.status_with(&token("old")), 401);
    gateway.settings.write(BROKEN);
    for _ in 0..REJECTIONS {
        gateway.signal(Signal::HUP);
        gateway.wait_settings("rejected");
    }
    // What it does not take before the end may be lost with the process.
    let mut log = late.read_until(|log| lines_told_of(log) >= REJECTIONS);
    gateway.terminate();
    log += &late.read_to_end();
    let log = log.has_times(1, " lines were dropped, since standard error");
    assert!(log.lines().all(|line| line.starts_with("info: ") || line.starts_with("warning: ")), "{log}");
}

#[test]
fn streams_that_take_nothing_or_that_nobody_reads_hold_up_nothing() {
    let (mut closed, closing) = io::pipe().map(|(reader, writer)| (Some(reader), writer)).unwrap();
    let full = || OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ((_unread_stdout, stdout), (_unread_stderr, stderr)) = (FullPipe::new(), FullPipe::new());
    let file = || tempfile::tempfile().unwrap();
    let streams: [[Stdio; 2]; 4] = [
        [closing.into(), Stdio::piped()],
        [full().into(), full().into()],
        [stdout.into(), stderr.into()],
        [file().into(), file().into()],
    ];
    for [stdout, stderr] in streams {
        let address = free_address();
        // A file takes nothing under this limit (setrlimit(2)).
        let gateway = Gateway::serve().after("ulimit -f 0").listen(address);
        let mut gateway = gateway.stdout(stdout).stderr(stderr).spawn();
        wait_until_it_listens(address, true);
        drop(closed.take());
        for _ in 0..3 {
            gateway.signal(Signal::USR1);
            Client::connect(address).exchange(&gateway.request(FINE)).assert_accepted();
        }
        gateway.settings.write(disabled());
        wait_until_it_listens(address, false);
        Process::stop(&mut gateway, Signal::TERM);
    }

    // A start that fails ends too.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let (_unread, stderr) = FullPipe::new();
    let mut gateway = Gateway::serve().listen(taken.local_addr().unwrap()).stderr(stderr).spawn();
    assert_eq!(gateway.wait_exit(), 4);
}

/// Another process that shares the stream has made it non-blocking.
#[test]
fn a_stdout_that_does_not_block_gets_every_event() {
    let (mut late, stdout) = FullPipe::new();
    set_nonblocking(&stdout, true);
    let address = free_address();
    let mut gateway = Gateway::serve().listen(address).stdout(stdout).spawn();
    wait_until_it_listens(address, true);
    let begun = late.read_until(|events| events.contains("\"listening\""));
    Process::stop(&mut gateway, Signal::TERM);
    let events = begun + &late.read_to_end();
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    assert!(is_event(events.last().unwrap(), "stopped"), "{events:?}");
}

#[test]
fn each_line_begins_with_its_time_if_that_is_asked_for_and_its_level() {
    let mut gateway = Gateway::serve().arguments(["--log-time", "--connect", "ipc:///nonexistent/hub"]).start();
    gateway.wait_log("info: listening on ");
    // `kill -USR1` needs it.
    gateway.wait_log(&format!(", as process {}\n", gateway.id()));
    // The file is made with the mode of others.
    gateway.wait_log("warning: ");
    gateway.wait_log("warning: not connected to ipc:///nonexistent/hub: ");
    gateway.settings.write("TOKEN = ");
    gateway.wait_settings("rejected");
    gateway.settings.write("\n");
    gateway.wait_event("disabled");
    gateway.wait_log("info: to switch the API on: ");
    let log = gateway.log();
    let rejected = log.lines().find(|line| line.contains("the last good settings stay in force")).unwrap();
    assert!(rejected.contains("Z warning: "), "{log}");
    let pattern = log.replace(|c: char| c.is_ascii_digit(), "0");
    let begins = ["info: ", "warning: ", "error: "].map(|level| format!("0000-00-00T00:00:00.000Z {level}"));
    assert!(pattern.lines().all(|line| begins.iter().any(|begin| line.starts_with(begin))), "{log}");
}

#[test]
fn a_terminal_gets_the_log_and_no_events() {
    for has_events in [false, true] {
        let terminal = Terminal::open();
        let builder = Gateway::serve().arguments(has_events.then_some("--events"));
        let mut gateway = builder.stdout(terminal.stream()).spawn();
        gateway.wait_log("info: listening on ");
        let log = Process::stop(&mut gateway, Signal::TERM).stderr;
        assert!(log.starts_with("info: ") || log.starts_with("warning: "), "{log}");
        let screen = terminal.read_to_end();
        assert_eq!(screen.contains(r#"{"event":"stopped""#), has_events, "{screen}");
        assert!(has_events || screen.is_empty(), "{screen}");
    }
}
