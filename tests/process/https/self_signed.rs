//! The self-signed pair beside the settings: made, renewed, not to be renewed, and behind a lock of another process.

use rustix::process::geteuid;

use super::*;

/// How long before its end the gateway renews a pair.
const RENEWED_BEFORE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// How long the pair is valid beyond that: enough time to start and to connect, also on a busy machine.
const REMAINING: Duration = Duration::from_secs(10);

fn files(settings: &Path) -> [PathBuf; 3] {
    ["gateway-cert.pem", "gateway-key.pem", "gateway-ca.pem"].map(|name| settings.with_file_name(name))
}

/// Writes settings that open the gateway, and this pair beside them.
fn settings_beside(pair: &Pair) -> SettingsFile {
    let settings = enabled_settings("of-the-test");
    let [certificate, key, _] = files(settings.path());
    fs::write(certificate, &pair.certificate).unwrap();
    fs::write(&key, &pair.key).unwrap();
    set_mode(&key, 0o600);
    settings
}

#[test]
fn the_first_start_makes_a_pair_with_each_name_of_this_machine() {
    let gateway = Gateway::serve().https().start();
    let [certificate, key, authority] = files(gateway.settings.path());
    assert_eq!([&certificate, &key, &authority].map(|path| mode(path)), [0o644, 0o600, 0o644]);
    // The first file is for clients that take a file, the second for browsers, which import one certificate.
    for trusted in [certificate, authority] {
        let connector = Connector::trusting_file(&trusted);
        for name in NAMES {
            let tls = connector.connect(gateway.address(), name).unwrap_or_else(|error| panic!("as {name}: {error}"));
            Client::over(tls).exchange(&gateway.request(FINE)).assert_accepted();
        }
        connector.connect(gateway.address(), "example.org").err().expect("a refusal of another name");
    }
    // Nor does a client trust it that was not made to.
    let distrusting = Connector::trusting([Pair::ec().leaf()]);
    let refused = distrusting.connect(gateway.address(), "localhost").err().expect("a refusal");
    assert!(refused.to_string().contains("UnknownIssuer"), "{refused}");
}

/// The names and addresses stand for those of this computer in a network.
#[test]
fn a_client_reaches_the_gateway_by_each_name_that_was_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let [certificate, ..] = files(&directory.path().join("any"));
    let start = |names: &[&str]| {
        let names = names.iter().flat_map(|name| ["--cert-name", name]);
        let options = ["--cert-dir", directory.path().to_str().unwrap()].into_iter().chain(names);
        Gateway::serve().https().arguments(options).start()
    };
    let expect_served_as = |gateway: &Gateway, names: &[&str]| {
        for name in names {
            let tls = Connector::trusting_file(&certificate).connect(gateway.address(), name);
            tls.unwrap_or_else(|error| panic!("as {name}: {error}"));
        }
    };
    let gateway = start(&["raspberrypi.local", "192.0.2.7"]);
    assert!(files(gateway.settings.path()).iter().all(|path| !path.exists()), "there is a pair beside the settings");
    expect_served_as(&gateway, &["localhost", "127.0.0.1", "raspberrypi.local", "RaspberryPi.local", "192.0.2.7"]);
    let other = Connector::trusting_file(&certificate).connect(gateway.address(), "other.local");
    other.err().expect("a refusal of another name");
    drop(gateway);
    let gateway = start(&["2001:db8::1"]);
    gateway.wait_log("the last one does not name 2001:db8::1");
    let made = fs::read(&certificate).unwrap();
    expect_served_as(&gateway, &["2001:db8::1", "localhost"]);
    drop(gateway);
    drop(start(&[]));
    assert_eq!(fs::read(&certificate).unwrap(), made, "the pair has each wanted name");
}

/// A parent knows then when clients have to trust another certificate.
#[test]
fn a_pair_that_the_gateway_makes_or_renews_is_reported_also_at_the_start() {
    let mut gateway = Gateway::serve().https().spawn();
    let [certificate, key, _] = files(gateway.settings.path());
    let made = expect_certificate(&mut gateway, "made", &certificate);
    let not_after = made["not_after"].as_str().unwrap().to_owned();
    assert!(not_after.len() == "2040-01-02T03:04:05Z".len() && not_after.ends_with('Z'), "{made}");
    gateway.wait_listening();
    fs::remove_file(&key).unwrap();
    let rejected = expect_certificate(&mut gateway, "rejected", &key);
    assert_eq!(rejected["not_after"], not_after, "the certificate in force ends then");
    fs::remove_file(&certificate).unwrap();
    let made = expect_certificate(&mut gateway, "made", &certificate);
    assert!(made["not_after"].as_str() >= Some(&not_after), "{made}");

    // One of them is due, the other one was made by a clock that was ahead.
    for pair in [Pair::valid(-790, 20), Pair::valid(2, 800)] {
        let mut gateway = Gateway::serve().https().beside(settings_beside(&pair)).spawn();
        let [certificate, ..] = files(gateway.settings.path());
        expect_certificate(&mut gateway, "renewed", &certificate);
        gateway.wait_listening();
        Connector::trusting_file(&certificate).assert_serves(&gateway);
    }

    // It is made when the gateway first opens.
    let mut gateway = Gateway::serve().https().settings(disabled()).start_disabled();
    assert!(files(gateway.settings.path()).iter().all(|path| !path.exists()), "the pair was made too early");
    gateway.enable("of-the-test");
    Connector::trusting_file(&self_signed_certificate(&gateway)).assert_serves(&gateway);
}

/// The statistics interrupt the wait for the renewal once a second, which must not delay it.
#[test]
fn a_pair_is_renewed_while_connections_stay() {
    let now = OffsetDateTime::now_utc();
    let pair = Pair::valid_between(now - RENEWED_BEFORE, now + RENEWED_BEFORE + REMAINING);
    let builder = Gateway::serve().https().arguments(["--stats", "1"]);
    let mut gateway = builder.beside(settings_beside(&pair)).start();
    let mut early = Connector::trusting([pair.leaf()]).client(gateway.address());
    early.exchange(&gateway.request(FINE)).assert_accepted();
    assert_eq!(early.stream().peer_certificate(), pair.leaf(), "renewed too early");
    let [certificate, key, authority] = files(gateway.settings.path());
    let held = [&certificate, &key].map(|path| File::open(path).unwrap());

    let renewed = eventually("another certificate", || {
        // At each time, each file exists and is complete, and others have no permissions for the key.
        let chain = certificates(&certificate);
        let text = fs::read_to_string(&key).unwrap();
        let is_complete = text.starts_with("-----BEGIN ") && text.ends_with("-----END PRIVATE KEY-----\n");
        assert!(is_complete, "the key is incomplete");
        assert_eq!(mode(&key), 0o600);
        if chain[0] == pair.leaf() {
            return None;
        }
        let served = Connector::trusting_file(&certificate).connect(gateway.address(), "localhost").ok()?;
        assert_eq!(served.peer_certificate(), chain[0]);
        Some(chain)
    });
    // The temporary files of the renewal are gone.
    let entries = entries(certificate.parent().unwrap());
    assert_same_set("files", entries, [certificate.clone(), key, authority, gateway.settings.path().into()]);
    early.exchange(&gateway.request(FINE)).assert_accepted();
    gateway.wait_log("since the last one ends in less than 30 days");
    let line = "new connections get the new certificate";
    gateway.wait_log(line).has_times(1, line);

    // The files were replaced and not overwritten, so a program that had opened them reads the old content.
    for (mut held, was) in held.into_iter().zip([&pair.certificate, &pair.key]) {
        let mut text = String::new();
        held.read_to_string(&mut text).unwrap();
        assert_eq!(text, *was);
    }
    // The next renewal is far away, so SIGHUP does not cause one.
    gateway.signal(Signal::HUP);
    gateway.wait_settings("unchanged");
    assert_eq!(certificates(&certificate), renewed);
}

/// Programs that restore a backup put one file after the other. Between the two, the pair cannot be used.
#[test]
fn a_pair_that_is_put_back_is_never_written_over_and_comes_to_be_served() {
    let in_place = |path: &Path, content: &[u8]| fs::write(path, content).unwrap();
    let by_rename = |path: &Path, content: &[u8]| replace(path, str::from_utf8(content).unwrap());
    let behind_removal = |path: &Path, content: &[u8]| {
        fs::remove_file(path).unwrap();
        fs::write(path, content).unwrap();
    };
    let ways: [fn(&Path, &[u8]); 3] = [in_place, by_rename, behind_removal];
    side_by_side(ways.into_iter().flat_map(|restore| [(restore, 0), (restore, 1)]), |(restore, first)| {
        let mut gateway = Gateway::serve().https().start();
        let [certificate, key, _] = files(gateway.settings.path());
        gateway.wait_state("certificate", "made");
        let pair = [&certificate, &key].map(|path| (path, fs::read(path).unwrap()));
        let trusts_pair = Connector::trusting_file(&certificate);
        pair.iter().for_each(|(path, _)| fs::remove_file(path).unwrap());
        gateway.wait_state("certificate", "made");
        gateway.wait_log("new connections get the new certificate");
        let trusts_other = Connector::trusting_file(&certificate);

        let restore = |index: usize| restore(pair[index].0, &pair[index].1);
        restore(first);
        gateway.wait_log("the private key does not match");
        trusts_other.assert_serves(&gateway);
        restore(1 - first);
        gateway.wait_state("certificate", "replaced");
        trusts_pair.assert_serves(&gateway);
        for (path, content) in &pair {
            assert_eq!(fs::read(path).unwrap(), *content, "{} is another one", path.display());
        }
        gateway.stop().stderr.has_times(2, "a new self-signed certificate");
    });
}

/// Whoever puts another folder in the place of this one, or moves it back, finds the place free.
#[test]
fn a_folder_that_is_away_is_not_made_anew_and_the_pair_in_it_is_served_again() {
    let mut gateway = Gateway::serve().https().listen(free_address()).start();
    let connector = Connector::trusting_file(&self_signed_certificate(&gateway));
    let folder = gateway.settings.path().parent().unwrap().to_owned();
    let away = folder.with_added_extension("away");
    fs::rename(&folder, &away).unwrap();
    gateway.wait_event("disabled");
    gateway.wait_log("the certificate stays as it was");
    assert!(!folder.exists());
    fs::rename(&away, &folder).unwrap();
    gateway.wait_listening();
    connector.assert_serves(&gateway);
}

/// Returns a gateway that runs without the privileges of root, and that the permissions of files therefore bind. It
/// takes the settings as they are, and publishes on an endpoint that needs no file.
fn unprivileged(settings: &SettingsFile) -> Builder {
    let gateway = Gateway::serve().https().no_settings().bind("tcp://127.0.0.1:*");
    if !geteuid().is_root() {
        return gateway;
    }
    set_mode(settings.config_home(), 0o755);
    for path in [settings.path().into()].into_iter().chain(files(settings.path())).filter(|path| path.exists()) {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    // This user may have no permission for the folder in which the program was built.
    let as_nobody = format!("setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups");
    let program = settings.config_home().join("adapter-gateway").display().to_string();
    gateway.after(&format!("cp \"$1\" {program} && shift && exec {as_nobody} {program} \"$@\""))
}

/// Starts a gateway with this pair in a directory that its owner may not write. Returns the directory too.
fn in_read_only_directory(pair: &Pair) -> (Gateway, PathBuf) {
    let settings = settings_beside(pair);
    let directory = settings.path().parent().unwrap().to_owned();
    let builder = unprivileged(&settings);
    set_mode(&directory, 0o555);
    (builder.beside(settings).spawn(), directory)
}

#[test]
fn a_pair_that_cannot_be_renewed_is_served_as_long_as_it_is_valid_and_then_a_configuration_error() {
    needs!(!geteuid().is_root() || can_give_away());
    let pair = Pair::valid(-790, 20);
    let (mut gateway, directory) = in_read_only_directory(&pair);
    gateway.wait_listening();
    gateway.wait_log("cannot be renewed");
    let certificate = self_signed_certificate(&gateway);
    let rejected = expect_certificate(&mut gateway, "rejected", &certificate);
    assert!(rejected["reason"].as_str().unwrap().contains("cannot be written"), "{rejected}");
    Connector::trusting([pair.leaf()]).assert_serves(&gateway);

    // The renewal succeeds as soon as the directory can be written.
    if geteuid().is_root() {
        chown(&directory, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    set_mode(&directory, 0o755);
    gateway.wait_log("new connections get the new certificate");
    Connector::trusting_file(&self_signed_certificate(&gateway)).client(gateway.address());
    gateway.terminate();

    let (mut gateway, directory) = in_read_only_directory(&Pair::valid(-400, -1));
    assert!(gateway.finish(3).stderr.contains("cannot be written"));
    set_mode(&directory, 0o755);
}

#[test]
fn a_key_of_another_owner_is_served_with_a_warning() {
    needs!(can_give_away());
    let pair = Pair::valid(-1, 400);
    let settings = settings_beside(&pair);
    let [_, key, _] = files(settings.path());
    let builder = unprivileged(&settings);
    chown(&key, Some(0), Some(NOBODY)).unwrap();
    set_mode(&key, 0o640);
    let gateway = builder.beside(settings).start();
    gateway.wait_log("open to others than its owner (mode 0640)");
    Connector::trusting([pair.leaf()]).assert_serves(&gateway);
    assert_eq!(mode(&key), 0o640);
}

/// A person who is told to remove a key removes the one that is served.
#[test]
fn a_key_that_was_open_is_told_of_unless_it_is_replaced() {
    for (pair, is_kept) in [(Pair::valid(-1, 400), true), (Pair::valid(-800, 10), false)] {
        let settings = settings_beside(&pair);
        set_mode(&files(settings.path())[1], 0o644);
        let log = Gateway::serve().https().beside(settings).start().stop().stderr;
        assert_eq!(log.contains("and is now closed"), is_kept, "{log}");
    }
    let settings = settings_beside(&Pair::ec());
    let [certificate, key, _] = files(settings.path());
    set_mode(&key, 0o644);
    fs::remove_file(&certificate).unwrap();
    fs::create_dir(&certificate).unwrap();
    Gateway::serve().https().beside(settings).spawn().finish(3).stderr.has("and is now closed");
}

#[test]
fn a_lock_that_another_process_holds_holds_nothing_up() {
    let settings = SettingsFile::absent();
    let held = File::open(settings.path().parent().unwrap()).unwrap();
    held.lock().unwrap();
    let mut gateway = Gateway::serve().https().beside(settings).start();
    let [certificate, key, _] = files(gateway.settings.path());
    let former = Connector::trusting_file(&certificate);
    former.assert_serves(&gateway);
    gateway.wait_log("made without the lock");

    [&certificate, &key].iter().for_each(|path| fs::remove_file(path).unwrap());
    gateway.wait_log("new connections get the new certificate");
    former.connect(gateway.address(), "localhost").err().expect("a refusal, since the authority is also new");
    gateway.change_token("rotated");
    let mut client = Connector::trusting_file(&certificate).client(gateway.address());
    assert_eq!(client.exchange(&gateway.request(FINE)).status, 401, "the former token is still in force");
    gateway.disable();
    gateway.terminate();
    drop(held);
}
