//! The examples of the documents run as they stand, over https, with the certificate that the gateway makes.

use serde::Deserialize;

use super::messages;
use super::*;

/// A client, as `clients.json` has it.
#[derive(Deserialize)]
struct Client {
    /// The name of its examples.
    name: String,
    /// What succeeds where it is installed.
    probe: Vec<String>,
    /// What runs an example of it.
    interpreter: Vec<String>,
    token: Option<String>,
    /// The lines of a script by a Unix socket, which `HOW` of the table makes complete.
    #[serde(default)]
    by_a_socket: Vec<String>,
}

static CLIENTS: LazyLock<Vec<Client>> =
    LazyLock::new(|| serde_json::from_str(include_str!("clients.json")).expect("clients"));

#[test]
fn curl_and_httpie() {
    Client::named("curl").run_example("README.md", &[hello("hello")]);
    Client::named("curl").run_every_message();
    Client::named("httpie").run_example("docs/clients.md", &[hello("hello")]);
}

#[test]
fn python_adapter_gateway_and_requests() {
    let numbers = (0..10_000).map(|number| number.to_string());
    let contents = std::iter::once("hello".to_owned()).chain(numbers);
    let expected: Vec<_> = contents.map(|content| hello(&content)).collect();
    Client::named("adapter_gateway").run_example("README.md", &expected);
    Client::named("requests").run_every_message();
}

#[test]
fn javascript_fetch() {
    let client = Client::named("fetch");
    client.run_every_message();
    let page = Document::read("docs/clients.md");
    let (topic, payload) = hello("hello");
    let [fetch, batches] = ["fetch", "batches"].map(|name| page.block(&format!("run: {name}")));
    let script = format!("{fetch}const messages = Array(60).fill([\"{topic}\", {payload}]);\n{batches}");
    client.run_script(&page.path, &script, &vec![(topic, payload); 61]);
}

#[test]
fn clients_of_a_unix_socket() {
    let page = Document::read("docs/clients.md");
    let rows = page.table("unix clients");
    let clients: Vec<_> = CLIENTS.iter().filter(|client| !client.by_a_socket.is_empty()).collect();
    assert_same_order("docs/clients.md", rows.iter().map(|row| row[0]), clients.iter().map(|it| it.name.as_str()));
    let (topic, payload) = hello("hello");
    let body = json!({"topic": topic, "payload": payload}).to_string();
    for (row, client) in rows.iter().zip(clients) {
        let script = client.by_a_socket.join("\n");
        let quote = if script.contains("'TOPIC'") { "" } else { "'" };
        let script = script
            .replace("HOW", row[1].trim_matches('`'))
            .replace("PATH", "~/.config/adapter/gateway.sock")
            .replace("SETTINGS", "~/.config/adapter/user_settings.py")
            .replace("URL", "http://localhost/api/message?token=<ACCESS_TOKEN>")
            .replace("TOPIC", &format!("{quote}{topic}{quote}"))
            .replace("PAYLOAD", &payload.to_string())
            .replace("BODY", &body);
        client.run_script(&client.name, &script, &[(topic.clone(), payload.clone())]);
    }
}

#[test]
fn the_short_parent_of_the_readme() {
    // The settings of the user, whom the section above has switched the gateway on. All ports are free ones.
    let directory = tempfile::tempdir().unwrap();
    let settings = directory.path().join("adapter");
    fs::create_dir(&settings).unwrap();
    fs::write(settings.join("user_settings.py"), enabled(&token("parent"))).unwrap();
    let readme = Document::read("README.md");
    let parent = readme.block("run: parent");
    assert!(parent.lines().count() <= 10, "the parent of the README has more than ten lines");
    let patient = parent.replace("Gateway(", "Gateway(start_timeout=120, ");
    let Some(mut python) = python(&patient, &[]) else { return };
    let printed = Process::spawn(python.env("XDG_CONFIG_HOME", directory.path())).finish(0).stdout;
    printed.has("post messages to https://127.0.0.1:").has("gateway-cert.pem\n").has("published 0 of 0");
}

#[test]
fn the_whole_adapter_follows_its_user_and_replaces_its_gateway() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let script = Document::read("docs/examples/adapter.py").text.replace("12358", "0");
    let script = [("16130", "in"), ("16103", "out")].iter().fold(script, |script, (port, name)| {
        script.replace(&format!("tcp://127.0.0.1:{port}"), &format!("ipc://{}", path(name)))
    });
    let settings = path("user_settings.py");
    let Some(mut command) = python(&script, &[&settings]) else { return };
    let (reader, mut stdin) = io::pipe().unwrap();
    let mut adapter = Process::spawn(command.stdin(reader));
    let mut expect = |typed: &str, beginning: &str| {
        writeln!(stdin, "{typed}").unwrap();
        adapter.wait_line(beginning, |line| line.starts_with(beginning))
    };
    expect("help", "the check box is empty");
    expect("help", "the REST interface is off: ");
    expect("on", "the REST interface is on");
    let shown = expect("show", "post to https://127.0.0.1:");
    let (url, _) = shown.trim_start_matches("post to ").split_once(' ').unwrap();
    assert!(succeeds(&[GATEWAY, "send", "--settings", &settings, "--url", url, "a", "{}"]));
    expect("upgrade", "the old one published 1");
    let told = expect("show", "the gateway is the process ");
    let pid = Pid::from_raw(told.trim_end().rsplit_once(' ').unwrap().1.parse().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    expect("help", "the REST interface is off: the gateway was ended by signal 9");
    expect("help", "the REST interface is on");
    assert!(succeeds(&[GATEWAY, "send", "--settings", &settings, "--url", url, "a", "{}"]));
    expect("off", "the REST interface is off: OPEN_REST_API is not set to True in ");
    expect("show", "that failed: ");
    expect("quit", "published 1 of 1");
    adapter.finish(0);
}

#[test]
fn the_parents_that_replace_a_gateway_and_that_have_no_package() {
    let published = "every accepted message was published\n";
    let cases: [(&str, &[&str], &str); 3] = [
        ("docs/examples/parent.py", &[], published),
        ("docs/examples/parent.py", &["--plain"], published),
        ("docs/examples/replacement.py", &[], "three replacements, and every answer was 200\n"),
    ];
    side_by_side(cases, |(path, options, last)| {
        let Some(mut python) = python(&Document::read(path).text, options) else { return };
        Process::spawn(&mut python).finish(0).stdout.ends(last);
    });
}

type Posted = (String, Value);

fn hello(content: &str) -> Posted {
    ("adapter/extensions/data".to_owned(), json!({"extension_id": "demo", "content": content}))
}

impl Client {
    fn named(name: &str) -> &'static Self {
        CLIENTS.iter().find(|client| client.name == name).expect(name)
    }

    /// Runs the example with its last line once for each message of the table of `docs/clients.md`.
    fn run_every_message(&self) {
        let page = Document::read("docs/clients.md");
        let (preamble, line) = page.block(&format!("run: {}", self.name)).trim_end().rsplit_once('\n').unwrap();
        let rows = page.table("generated: messages");
        let mut words = rows.iter().flat_map(|row| &row[1..]).flat_map(|cell| quoted(cell));
        let messages: Vec<[&str; 2]> = std::iter::from_fn(|| Some([words.next()?, words.next()?])).collect();
        let [topic, payload] = messages[0];
        line.has(topic).has(payload);
        let lines = messages.iter().map(|other| line.replace(topic, other[0]).replace(payload, other[1]));
        let script = std::iter::once(preamble.to_owned()).chain(lines).collect::<Vec<_>>().join("\n");
        let known = messages::one_for_each_vocabulary();
        let known_topics = known.iter().map(|message| message.topic);
        assert_same_set("docs/clients.md, topics of the messages", messages.iter().map(|it| it[0]), known_topics);
        assert_eq!(messages.len(), known.len(), "docs/clients.md, the number of messages");
        let posted = |[topic, payload]: [&str; 2]| (topic.to_owned(), serde_json::from_str(payload).unwrap());
        self.run_script(&page.path, &script, &messages.into_iter().map(posted).collect::<Vec<_>>());
    }

    fn run_example(&self, document: &str, expected: &[Posted]) {
        let script = Document::read(document);
        self.run_script(document, script.block(&format!("run: {}", self.name)), expected);
    }

    /// Runs a script against a gateway of its own, whose hub is this process, if the client is installed.
    fn run_script(&self, document: &str, script: &str, expected: &[Posted]) {
        if !succeeds(&self.probe) {
            return skip(&format!("`{}` fails", self.probe.join(" ")));
        }
        let settings = SettingsFile::absent();
        let at = |name: &str| settings.path().with_file_name(name);
        let (hub, endpoint) = bound_socket(zmq::SUB, &format!("ipc://{}", at("hub").display()));
        let count = expected.len();
        // A socket that binds sends its subscriptions only when it is called.
        let hub = thread::spawn(move || (0..count).map(|_| hub.recv_multipart(0).unwrap()).collect::<Vec<_>>());
        let token = self.token.clone().unwrap_or_else(|| token("of-the-examples"));
        let builder = Gateway::serve().https().connect(&endpoint).token(&token);
        let mut gateway = builder.listen(ANY_PORT).listen_at(&at("gateway.sock")).beside(settings).start();
        gateway.wait_event("ready");

        let (settings, url) = (gateway.settings.path(), format!("https://{}/api/message", gateway.address()));
        let script = script
            .replace("from_settings()", &format!("from_settings({settings:?}, url={url:?})"))
            .replace("https://localhost:12358/api/message", &url)
            .replace("<ACCESS_TOKEN>", gateway.token())
            .replace("~/.config/adapter", settings.parent().unwrap().to_str().unwrap());
        let mut command = with_package(&self.interpreter);
        command.arg(script).env("NODE_EXTRA_CA_CERTS", settings.with_file_name("gateway-cert.pem"));
        Process::spawn(&mut command).finish(0);
        for ((topic, payload), frames) in expected.iter().zip(hub.join().unwrap()) {
            let [seen, content] = frames.as_slice() else { panic!("{frames:?}") };
            let content: Value = serde_json::from_slice(content).unwrap();
            assert_eq!((seen.as_slice(), &content), (topic.as_bytes(), payload), "{document}");
        }
    }
}

/// Returns a command that finds the program and the Python package.
fn with_package(words: &[impl AsRef<str>]) -> Command {
    let mut command = command(words);
    command.env("ADAPTER_GATEWAY", GATEWAY).env("PYTHONPATH", repository("python"));
    command.env("PYTHONDONTWRITEBYTECODE", "1").env("no_proxy", "*");
    command
}

fn python(script: &str, options: &[&str]) -> Option<Command> {
    if !succeeds(&Client::named("adapter_gateway").probe) {
        skip("there is no Python 3.9");
        return None;
    }
    let mut python = with_package(&["python3", "-c", script]);
    python.args(options);
    Some(python)
}
