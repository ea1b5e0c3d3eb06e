//! No descriptor is left open, whatever ends, and a start without enough of them, or of threads, ends with a sentence.

use crate::support::*;

/// The most descriptors that a start with four workers takes.
const ENOUGH: usize = 128;

/// `endurance::abandoned_connections` has those that deadlines end.
#[test]
fn connections_that_end_because_the_api_is_switched_off_leave_none() {
    let mut gateway = Gateway::serve().start();
    gateway.post(FINE).assert_accepted();
    gateway.wait_count("connections", 0);
    let open = descriptors(gateway.id());
    // A client for each state in which a connection can be when its end comes from elsewhere.
    let request = gateway.request(FINE);
    let (head, whole) = (request.head(), request.bytes());
    let sent: [&[u8]; 6] = [b"", &head[..head.len() / 2], &head, &whole[..whole.len() - 1], &whole, b"\r\nno request"];
    let mut clients: Vec<_> = sent.iter().map(|_| Client::connect(gateway.address())).collect();
    clients.iter_mut().zip(sent).for_each(|(client, bytes)| client.send(bytes));
    let mut not_reading = Client::with_small_window(gateway.address());
    not_reading.send_until_full(&whole.repeat(500));
    clients.push(not_reading);
    gateway.wait_count("connections_accepted", 1 + clients.len());
    gateway.disable();
    gateway.wait_count("connections", 0);
    gateway.enable("of-the-test");
    wait_until("the descriptors are closed", || descriptors(gateway.id()) == open);
}

/// Returns a gateway with four workers, and how many descriptors it has inherited of what other tests open and close.
fn start_with_inherited(builder: Builder) -> (Gateway, usize) {
    let inherited = tempfile::NamedTempFile::new().unwrap();
    let script = format!("ls /proc/$$/fd > '{}'", inherited.path().display());
    let gateway = builder.arguments(["--workers", "4"]).after(&script).start();
    (gateway, fs::read_to_string(inherited).unwrap().lines().count())
}

#[test]
fn a_refused_ring_leaves_none() {
    let (epoll, inherited_by_epoll) = start_with_inherited(Gateway::serve().io("epoll", "epoll"));
    let refused = Gateway::serve().io("auto", "epoll").refused(NO_RING);
    let (refused, inherited_by_refused) = start_with_inherited(refused);
    let is_equal = || descriptors(refused.id()) + inherited_by_epoll == descriptors(epoll.id()) + inherited_by_refused;
    // At the start, either one has others for a moment.
    wait_until("a refused ring leaves no descriptor", is_equal);
}

#[test]
fn a_start_without_enough_of_them_ends_with_a_sentence() {
    // The dynamic linker needs some to load the program, and whoever runs the tests may have left some open.
    let mut version = binary();
    version.arg("--version");
    let loads = |limit: &usize| after(&format!("ulimit -n {limit}"), &version).output().unwrap().status.success();
    let enough_to_load = (4..ENOUGH).find(loads).expect("the program can be loaded");
    for (io, expected, allowed) in
        [("auto", "uring or epoll", [3, 4].as_slice()), ("epoll", "epoll", &[3, 4]), ("uring", "uring", &[3, 4, 5])]
    {
        let mut statuses = Vec::new();
        // Each start has one more, until the gateway listens.
        let enough = (enough_to_load..ENOUGH).find(|limit| {
            let builder = Gateway::serve().io(io, expected).after(&format!("ulimit -n {limit}"));
            let mut gateway = builder.arguments(["--workers", "4"]).spawn();
            if gateway.listens_before_its_end() {
                return true;
            }
            statuses.push(gateway.wait_exit());
            let stderr = gateway.end().stderr;
            assert!(stderr.trim_end().ends_with("(os error 24)"), "with {limit} descriptors: {stderr}");
            false
        });
        assert!(enough.is_some(), "it does not start with {ENOUGH} descriptors");
        assert!(statuses.iter().all(|status| allowed.contains(status)), "--io {io}: {statuses:?}");
    }
}

/// The kernel limits the threads of a user, so the commands run as one who has no others.
#[test]
fn a_command_without_enough_threads_is_3_with_a_sentence() {
    // Who cannot do this can run no command as another user either.
    needs!(can_give_away());
    let settings = enabled_settings("a");
    let settings = settings.path().to_str().unwrap();
    let serve = ["serve", "--settings", settings, "--plain", "--listen", "127.0.0.1:0", "--watch-stdin"];
    let commands: [(&[&str], [i32; 2]); 3] = [
        (&serve, [0, 3]),
        (&["listen", "--connect", "tcp://127.0.0.1:9", "--timeout", "0.1"], [1, 3]),
        (&["demo", "--listen", "127.0.0.1:0"], [0, 3]),
    ];
    for (arguments, statuses) in commands {
        let ends = (1..=12).map(|threads| {
            let limit = format!("--nproc={threads}");
            let mut command = Command::new("setpriv");
            command.args(["--reuid=54321", "--inh-caps=-all,+dac_override", "--ambient-caps=-all,+dac_override"]);
            command.args(["prlimit", &limit]).arg(binary().get_program()).args(arguments);
            let mut process = Process::spawn(command.stdin(Stdio::null()));
            wait_until("its end, or what it serves", || {
                let serves = process.log().contains("listening on ");
                serves || !process.is_running()
            });
            if process.is_running() {
                process.signal(Signal::TERM);
            }
            let status = process.wait_exit().code();
            let Transcript { stdout, stderr } = process.end();
            let is_expected = status.is_some_and(|status| statuses.contains(&status));
            assert!(is_expected, "{limit} {arguments:?}: {status:?} {stderr}");
            let is_told = stderr.lines().any(|line| line.starts_with("error: ") && line.ends_with("(os error 11)"));
            assert_eq!(status == Some(3), is_told, "{limit} {arguments:?}: {stderr}");
            let last = stdout.lines().last().unwrap_or_default();
            let is_reported = last.starts_with(r#"{"event":"failed","status":3,"#);
            assert_eq!(is_reported, is_told && arguments == serve, "{limit} {arguments:?}: {stdout}");
            status
        });
        let ends: Vec<_> = ends.collect();
        assert!(ends.contains(&Some(3)) && ends.contains(&Some(statuses[0])), "{arguments:?}: {ends:?}");
    }
}
