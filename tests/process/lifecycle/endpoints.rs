//! The socket files of `--listen unix:` and of `ipc://` endpoints: the gateway takes nothing away from anybody, leaves
//! nothing behind, and only its user can connect. The unit tests of `sys::unix_listener` have the other cases.

use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixListener;

use super::*;

/// An option that binds a socket file, and the status of a start that is refused because of the file.
type Place = (&'static str, i32);

/// Gives a gateway what refuses its start, where the address is taken; and the status of that.
type Refused = (fn(Builder, SocketAddr) -> Builder, i32);

const PLACES: [Place; 4] = [("--listen", 4), ("--bind", 3), ("--hub-publishers", 3), ("--hub-subscribers", 3)];

/// Returns the inode of a file that is there.
fn inode(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|file| file.ino())
}

/// Makes a socket file that nobody listens on, as a gateway leaves it that was killed.
fn make_stale(path: &Path) {
    drop(UnixListener::bind(path).unwrap());
}

fn ipc(path: &Path) -> String {
    format!("ipc://{}", path.display())
}

/// A gateway with this place. The other side of a hub is beside it, at `unused`.
fn with_place((option, _): Place, path: &Path, unused: &Path) -> Builder {
    match option {
        "--listen" => Gateway::serve().listen_at(path),
        "--bind" => Gateway::serve().bind(&ipc(path)),
        "--hub-publishers" => Gateway::serve().only_hub(&ipc(path), &ipc(unused)),
        _ => Gateway::serve().only_hub(&ipc(unused), &ipc(path)),
    }
}

fn assert_serves((option, _): Place, path: &Path, gateway: &Gateway) {
    match option {
        "--listen" => Client::connect_to(path).exchange(&gateway.request(FINE)).assert_accepted(),
        "--hub-publishers" => drop(RawPeer::speaking(&ipc(path), "PUB")),
        _ => Subscriber::connected(&ipc(path), "").wait_until_subscribed(gateway),
    }
}

#[test]
fn a_gateway_that_is_started_twice_ends_with_4_and_the_first_one_serves_old_and_new_subscribers() {
    let (_directory, endpoint) = temporary_endpoint();
    let first = Gateway::serve().listen(free_address()).bind(&endpoint).arguments(["--workers", "2"]).start();
    let early = Subscriber::connected(&endpoint, "");
    early.wait_until_subscribed(&first);
    // If both set `SO_REUSEPORT`, the second one would start and get half of the connections.
    for workers in ["1", "2"] {
        Gateway::serve().listen(first.address()).bind(&endpoint).arguments(["--workers", workers]).fail(4);
    }
    let late = Subscriber::connected(&endpoint, "");
    late.wait_until_subscribed(&first);
    let last = Message::new("last", "{}");
    first.post(last.body()).assert_accepted();
    for subscriber in [early, late] {
        while subscriber.next() != last {}
    }
}

#[test]
fn a_path_where_somebody_listens_or_that_is_no_socket_refuses_the_start_and_stays() {
    for place in PLACES {
        let [directory, unused, other] = [(); 3].map(|()| tempfile::tempdir().unwrap());
        let path = directory.path().join("socket");
        let first = with_place(place, &path, &other.path().join("unused")).start();
        let stderr = with_place(place, &path, &unused.path().join("unused")).fail(place.1);
        assert!(stderr.contains(path.to_str().unwrap()), "{place:?}: {stderr}");
        assert!(stderr.contains("another process listens there"), "{place:?}: {stderr}");
        assert_eq!(stderr.contains("leave --hub out"), place.0.starts_with("--hub"), "{place:?}: {stderr}");
        assert_serves(place, &path, &first);

        let link = directory.path().join("link");
        make_stale(&directory.path().join("stale"));
        std::os::unix::fs::symlink("stale", &link).unwrap();
        let before = inode(&link);
        let stderr = with_place(place, &link, &unused.path().join("unused")).fail(place.1);
        assert!(stderr.contains(link.to_str().unwrap()) && stderr.contains("not a socket"), "{place:?}: {stderr}");
        assert_eq!(inode(&link), before, "{place:?}");
        assert_eq!(entries(&unused).count(), 0, "{place:?}: a socket is left behind");
    }
}

#[test]
fn only_the_owner_can_connect_and_the_socket_is_taken_over_of_a_killed_gateway_and_removed_at_the_end() {
    for (place, umask) in PLACES.into_iter().flat_map(|place| [(place, "umask 0"), (place, "umask 777")]) {
        let (directory, [path, unused]) = temporary_paths(["socket", "unused"]);
        let mut killed = with_place(place, &path, &unused).start();
        killed.signal(Signal::KILL);
        killed.end();
        let mut gateway = with_place(place, &path, &unused).after(umask).start();
        assert_serves(place, &path, &gateway);
        let metadata = fs::symlink_metadata(&path).unwrap();
        assert!(metadata.file_type().is_socket());
        assert_eq!(metadata.permissions().mode() & 0o777, 0o600, "{place:?}, {umask}");
        gateway.terminate();
        assert_eq!(entries(&directory).count(), 0, "{place:?}");
    }
}

/// Whatever refuses the start is asked before an endpoint is bound: here a socket that could be taken over stays as it
/// was. Where a machine is so slow that the settings do not answer in time, endpoints come first: this is tried again.
#[test]
fn a_start_that_is_refused_has_bound_no_endpoint_and_leaves_no_file() {
    let (directory, [path, unused]) = temporary_paths(["socket", "unused"]);
    let taken = Gateway::serve().listen(free_address()).start();
    let refusals: [Refused; 4] = [
        (|builder, taken| builder.listen(taken), 4),
        (|builder, _| builder.io("uring", "uring").refused(NO_RING), 5),
        (|builder, _| builder.https().arguments(["--tls-cert", "/dev/null", "--tls-key", "/dev/null"]), 3),
        (|builder, _| builder.connect("tcp://nowhere"), 3),
    ];
    for (place, (refused, status)) in PLACES[1..].iter().flat_map(|place| refusals.map(|refusal| (*place, refusal))) {
        wait_until("the settings answer in time", || {
            if !path.exists() {
                make_stale(&path);
            }
            let before = inode(&path);
            let stderr = refused(with_place(place, &path, &unused), taken.address()).fail(status);
            let is_untouched = inode(&path) == before;
            assert!(is_untouched || stderr.contains("does not answer"), "{place:?}: {stderr}");
            is_untouched
        });
    }
    taken.post(FINE).assert_accepted();
    Gateway::serve().listen_at(&unused).connect("tcp://nowhere").fail(3);
    let endpoint = format!("tcp://{}", taken.address());
    for _ in 0..10 {
        assert!(Gateway::serve().listen_at(&unused).bind(&endpoint).fail(3).contains("in use"));
        assert_eq!(entries(&directory).count(), 1);
    }
}
