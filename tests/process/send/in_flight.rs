//! The lines in flight, before a server that answers as the test wants.

use super::*;

struct Server {
    listener: TcpListener,
    settings: SettingsFile,
}

struct Accepted(BufReader<TcpStream>);

const TAKEN: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n{\"status\":\"accepted\"}";

impl Server {
    fn start() -> Self {
        Self { listener: free_listener(), settings: enabled_settings("x") }
    }

    fn send(&self, input: impl Into<Stdio>) -> Command {
        let mut command = send_with(&self.settings);
        command.args(["--url", &format!("http://{}", self.listener.local_addr().unwrap())]).stdin(input);
        command
    }

    /// In each step of a connection, lines with these numbers come and are answered so. Returns what `send` says.
    fn play(&self, count: usize, options: &[&str], connections: &[&[(Range<usize>, Vec<u8>)]], status: i32) -> String {
        let mut send = Process::spawn(self.send(file(&lines(count))).args(options));
        for steps in connections {
            let mut connection = self.accept();
            for (numbers, answer) in *steps {
                assert_eq!(connection.requests(numbers.len()), topics(numbers.clone()));
                connection.answer(answer);
            }
        }
        send.finish(status).stderr
    }

    /// A server takes a line, changes its settings and ends. Returns where it was, its settings, and `send`.
    fn away_behind_a_line(change: impl FnOnce(&SettingsFile)) -> (SocketAddr, SettingsFile, Process) {
        let server = Self::start();
        let address = server.listener.local_addr().unwrap();
        let (send, mut connection, mut writer) = server.begun(1);
        connection.answer(TAKEN);
        change(&server.settings);
        drop(server.listener);
        connection.close();
        writer.write_all(b"t/2\t2\n").unwrap();
        (address, server.settings, send)
    }

    /// Starts `send` with an input that stays open and begins with so many lines, the first of which comes.
    fn begun(&self, count: usize) -> (Process, Accepted, io::PipeWriter) {
        let (reader, mut writer) = io::pipe().unwrap();
        let send = Process::spawn(&mut self.send(reader));
        writer.write_all(lines(count).as_bytes()).unwrap();
        let mut connection = self.accept();
        assert_eq!(connection.request(), "t/1");
        (send, connection, writer)
    }

    fn accept(&self) -> Accepted {
        Accepted(BufReader::new(accept_connection(&self.listener)))
    }
}

impl Accepted {
    fn request(&mut self) -> String {
        let (mut line, mut length) = (String::new(), 0);
        while line != "\r\n" {
            line.clear();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the connection has ended");
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        serde_json::from_slice::<Value>(&body).unwrap()["topic"].as_str().unwrap().to_owned()
    }

    fn requests(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.request()).collect()
    }

    fn answer(&mut self, answer: &[u8]) {
        self.0.get_mut().write_all(answer).unwrap();
    }

    /// Ends the connection, and waits until the other side has ended it too: the next line is in no doubt then.
    fn close(mut self) {
        self.0.get_ref().shutdown(Shutdown::Write).unwrap();
        assert_eq!(self.0.read_to_end(&mut Vec::new()).unwrap(), 0);
    }
}

fn topics(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(|number| format!("t/{number}")).collect()
}

#[test]
fn one_line_and_then_sixty_four_are_in_flight() {
    let server = Server::start();
    let mut send = Process::spawn(&mut server.send(file(&lines(100))));
    let mut connection = server.accept();
    let mut begun = 1;
    for count in [1, 64, 35] {
        assert_eq!(connection.requests(count), topics(begun..begun + count));
        connection.0.get_ref().set_nonblocking(true).unwrap();
        assert!(connection.0.fill_buf().is_err(), "one more than {count} requests");
        connection.0.get_ref().set_nonblocking(false).unwrap();
        connection.answer(&TAKEN.repeat(count));
        begun += count;
    }
    send.finish(0);
}

#[test]
fn lines_of_a_broken_connection_are_in_doubt_and_sent_no_second_time() {
    // With half of an answer, and everything read, so that the end is no reset.
    let broken = [&TAKEN.repeat(3), &TAKEN[..20]].concat();
    let first = [(1..2, TAKEN.to_vec()), (2..66, broken)];
    let second = [(66..67, TAKEN.to_vec()), (67..101, TAKEN.repeat(34))];
    for (options, connections, end) in [
        (&[][..], &[&first[..]][..], "; unsent: everything from line 66 on\n"),
        (&["--keep-going"], &[&first, &second], "in doubt\n"),
    ] {
        let doubt = "warning: lines 5-65 are in doubt, and not sent again: the gateway closed the connection";
        Server::start().play(100, options, connections, 1).has(doubt).has("error: 61 lines in doubt").ends(end);
    }
}

/// A proxy lacks the answer of the gateway (RFC 9110 §15.6). Its 503 says that it has not passed the request on.
#[test]
fn a_line_for_which_a_proxy_got_no_answer_is_in_doubt() {
    let page = |status| {
        format!("HTTP/1.1 {status} X\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>").into_bytes()
    };
    let answers = [TAKEN.to_vec(), page(504), page(403)].concat();
    let log = Server::start().play(4, &["--keep-going"], &[&[(1..2, page(502)), (2..5, answers)]], 1);
    for (line, status) in [(1, 502), (3, 504)] {
        log.as_str()
            .has(format!("warning: line {line} is in doubt, and not sent again: a proxy answers {status}, and"));
    }
    log.ends("error: 1 line refused, 2 lines in doubt\n");
}

/// RFC 9112 §9.6: no request is read behind the one whose answer closes. An answer of HTTP/1.0 does, unless it has
/// `keep-alive` (§9.3); what follows that one was read, and a second time would be twice.
#[test]
fn lines_behind_an_answer_that_closes_are_sent_on_a_new_connection() {
    let as_in = |start| String::from_utf8_lossy(TAKEN).replacen("HTTP/1.1 200 OK\r\n", start, 1).into_bytes();
    let first = (1..2, TAKEN.to_vec());
    let second = [(3..4, TAKEN.to_vec()), (4..11, TAKEN.repeat(7))];
    for closing in ["HTTP/1.1 200 OK\r\nConnection: close\r\n", "HTTP/1.0 200 OK\r\n"].map(as_in) {
        Server::start().play(10, &[], &[&[first.clone(), (2..11, closing)], &second], 0);
    }
    let kept = as_in("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\n");
    Server::start().play(10, &[], &[&[(1..2, kept.clone()), (2..11, kept.repeat(9))]], 0);
}

#[test]
fn a_line_that_waits_is_sent_alone_and_what_overtook_it_is_told() {
    const LATER: &[u8] = b"HTTP/1.1 503 X\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
    let answers = [TAKEN, LATER, TAKEN, LATER, &TAKEN.repeat(5)].concat();
    let started = Instant::now();
    let steps = [(1..2, TAKEN.to_vec()), (2..11, answers), (3..4, TAKEN.to_vec()), (5..6, TAKEN.to_vec())];
    let log = Server::start().play(10, &[], &[&steps], 0);
    assert!(started.elapsed().as_secs_f64() >= 0.9, "it waits as told");
    log.has_times(1, "warning:").has("6 lines behind it went ahead");
}

#[test]
fn what_is_no_gateway_is_4() {
    for stranger in [
        &b"220 mail.example ESMTP\r\n"[..],
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"status\":\"ok\"}",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 21\r\n\r\n{\"status\":\"accepted\"}",
        b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n",
    ] {
        Server::start().play(1, &[], &[&[(1..2, stranger.to_vec())]], 4).has("is no gateway").has("line 1 is in doubt");
    }
}

/// Each takes the 30 s that a request has.
#[test]
fn every_wait_ends() {
    let large = format!("t\t\"{}\"\n", "x".repeat(16 << 20));
    let cases: [(&str, String, &[u8], &[u8]); 3] = [
        ("interim answers without an end", lines(1), b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        ("a head that drips", lines(1), b"HTTP/1.1 200 OK\r\nX: ", b"y"),
        ("a server that does not read", large, b"", b""),
    ];
    side_by_side(cases, |(case, input, first, dripped)| {
        let server = Server::start();
        let mut send = Process::spawn(&mut server.send(file(&input)));
        let mut connection = server.accept();
        connection.answer(first);
        let deadline = Instant::now() + PATIENCE;
        while send.is_running() && Instant::now() < deadline {
            // The connection may end meanwhile.
            let _ = connection.0.get_mut().write_all(dripped);
            thread::sleep(Duration::from_millis(100));
        }
        let Transcript { stderr, .. } = send.finish(1);
        assert!(stderr.contains("line 1 is in doubt") && stderr.contains("in time"), "{case}: {stderr}");
    });
}

/// The gateway may not have read the settings yet that were written, or put in place with the time of another file.
#[test]
fn a_token_that_was_just_written_is_tried_once_more() {
    const REFUSED: &[u8] = b"HTTP/1.1 401 X\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    for (is_young, answers, status) in
        [(true, &[REFUSED, TAKEN][..], 0), (true, &[REFUSED, REFUSED], 6), (false, &[REFUSED], 6)]
    {
        let server = Server::start();
        let settings = File::options().write(true).open(server.settings.path()).unwrap();
        settings.set_modified(std::time::SystemTime::now() - Duration::from_secs(60)).unwrap();
        if !is_young {
            // No program can set when a file was put in place.
            wait_until("the settings are not young", || {
                let put_at = settings.metadata().unwrap().ctime();
                std::time::UNIX_EPOCH.elapsed().unwrap().as_secs() as i64 > put_at + 2
            });
        }
        let connections: Vec<_> = answers.iter().map(|answer| [(1..2, answer.to_vec())]).collect();
        let connections: Vec<&[_]> = connections.iter().map(|steps| steps.as_slice()).collect();
        server.play(1, &[], &connections, status);
    }
}

/// As behind a proxy that keeps its connection to the client.
#[test]
fn a_refused_token_is_no_wait_for_the_lines_behind_it() {
    const REFUSED: &[u8] = b"HTTP/1.1 401 X\r\nContent-Length: 0\r\n\r\n";
    let steps = [(1..2, TAKEN.to_vec()), (2..4, [REFUSED, TAKEN].concat()), (2..3, TAKEN.to_vec())];
    Server::start().play(3, &[], &[&steps], 0).has("3 lines accepted").lacks("went ahead");
}

#[test]
fn a_gateway_that_starts_again_is_waited_for() {
    let (address, settings, mut send) = Server::away_behind_a_line(|_settings| {});
    // It sleeps between two attempts to connect, and else for its pipes alone.
    let main_thread = PathBuf::from(format!("/proc/{id}/task/{id}", id = send.id()));
    let before = voluntary_switches(&main_thread);
    wait_until("it has tried to connect", || voluntary_switches(&main_thread) > before + 5);
    let server = Server { listener: TcpListener::bind(address).unwrap(), settings };
    let mut connection = server.accept();
    assert_eq!(connection.request(), "t/2");
    connection.answer(TAKEN);
    send.finish(0);
}

/// The answers of the gateway that stops say where it stops, so that no line is in doubt and none is sent twice.
#[test]
fn a_gateway_that_restarts_while_lines_stream_leaves_none_in_doubt() {
    let subscriber = Subscriber::bound();
    let address = free_address();
    let start = || Gateway::serve().listen(address).connect(subscriber.endpoint()).start_connected();
    let mut gateway = start();
    let (reader, mut writer) = io::pipe().unwrap();
    let url = format!("http://{address}");
    let settings = enabled_settings("of-the-test");
    let mut send = Process::spawn(send_with(&settings).args(["--url", &url]).stdin(reader));
    let is_over = AtomicBool::new(false);
    let mut published = Vec::new();
    let sent = thread::scope(|scope| {
        let stream = scope.spawn(|| {
            let mut sent = 0;
            while !is_over.load(Ordering::Relaxed) {
                // Enough for the pipe to be never empty.
                let more: String = (sent + 1..=sent + 500).map(|number| format!("t/{number}\t{{}}\n")).collect();
                if writer.write_all(more.as_bytes()).is_err() {
                    break; // The command has ended too early, which its status shows.
                }
                sent += 500;
            }
            drop(writer);
            sent
        });
        for _ in 0..4 {
            published.extend((0..1000).map(|_| subscriber.next().topic));
            gateway.terminate();
            gateway = start();
        }
        is_over.store(true, Ordering::Relaxed);
        stream.join().unwrap()
    });
    send.finish(0);
    published.extend((published.len()..sent).map(|_| subscriber.next().topic));
    published.sort_unstable();
    let mut all = topics(1..=sent);
    all.sort_unstable();
    assert_eq!(published, all);
}

/// The input stays open, and the answers to what is in flight count.
#[test]
fn a_signal_ends_it_behind_the_answers_with_the_line_to_go_on_with() {
    for signal in [Signal::INT, Signal::TERM] {
        let server = Server::start();
        let (mut send, mut connection, _writer) = server.begun(3);
        connection.answer(TAKEN);
        assert_eq!(connection.requests(2), topics(2..=3));
        send.signal(signal);
        connection.answer(&TAKEN.repeat(2));
        let log = send.finish(1).stderr;
        log.has("3 lines accepted").ends("error: ended by a signal; unsent: everything from line 4 on\n");
    }
}

#[test]
fn a_second_signal_ends_it_at_once_and_no_answer_is_waited_for_longer_than_its_bound() {
    for count in [1, 2] {
        let server = Server::start();
        let (mut send, _connection, _writer) = server.begun(1);
        (0..count).for_each(|_| send.signal(Signal::INT));
        let Transcript { stderr, .. } = send.finish(1);
        let is_told = stderr.ends_with("error: 1 line in doubt; unsent: everything from line 2 on\n");
        assert!(is_told || count == 2, "{stderr}");
    }
}

/// Without a handler, a signal would not end the first process of a container.
#[test]
fn a_signal_ends_the_first_process_of_a_container() {
    needs!(is_possible("unshare --user --map-root-user --pid --fork true"));
    let server = Server::start();
    let (reader, _writer) = io::pipe().unwrap();
    let inner = server.send(reader);
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--pid", "--fork", "--kill-child=KILL"]);
    command.arg(inner.get_program()).args(inner.get_args()).arg("t/1").arg("{}");
    let mut unshare = Process::spawn(&mut command);
    let mut connection = server.accept();
    assert_eq!(connection.request(), "t/1");
    unshare.signal_child(Signal::TERM);
    unshare.finish(1).stderr.ends("error: 1 message in doubt\n");
}

#[test]
fn a_gateway_that_is_switched_off_is_told_as_such_and_not_waited_for() {
    const OFF: &[u8] = b"HTTP/1.1 503 X\r\nConnection: close\r\nContent-Type: application/problem+json\r\n\
        Content-Length: 48\r\n\r\n{\"type\":\"urn:x:problem:disabled\",\"detail\":\"off\"}";
    let log = Server::start().play(3, &[], &[&[(1..2, TAKEN.to_vec()), (2..4, OFF.to_vec())]], 3);
    log.has("is off").has("unsent: lines 2-3").lacks("doubt").lacks("wait");

    // Between two lines, it refuses connections, as one does that starts again, and the settings tell that it does not.
    let (_address, _settings, mut send) = Server::away_behind_a_line(|settings| settings.write(disabled()));
    send.finish(3).stderr.has("OPEN_REST_API is not set to True").has("unsent: line 2");
}
