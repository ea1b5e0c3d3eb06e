use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::load_self_signed;
use crate::tls::certificate::{CertificateError, CertificateName, LoadedCertificate, not_after};
use crate::tls::source::{AUTHORITY_FILE, CERTIFICATE_FILE, CertificateSource, KEY_FILE, Occasion};

const DAY: Duration = Duration::from_secs(86_400);

/// Loads the pair at a start.
fn load(directory: &Path, now: SystemTime) -> Result<LoadedCertificate, CertificateError> {
    load_self_signed(directory, &[], now, Occasion::Start)
}

/// Loads the pair while this one is served.
fn load_again(
    directory: &Path,
    now: SystemTime,
    served: &LoadedCertificate,
) -> Result<LoadedCertificate, CertificateError> {
    load_self_signed(directory, &[], now, Occasion::Run(Some(&served.identity)))
}

fn read_pair(directory: &Path) -> [Option<Vec<u8>>; 2] {
    [CERTIFICATE_FILE, KEY_FILE].map(|file| fs::read(directory.join(file)).ok())
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().mode() & 0o7777
}

/// Returns why a new pair was made, or `None` where the last one was kept.
fn replaced(loaded: &LoadedCertificate) -> Option<Option<&str>> {
    loaded.made.as_ref().map(|made| made.reason.as_deref())
}

#[test]
fn a_pair_is_made_once_with_its_directory_and_kept() {
    let root = tempfile::tempdir().unwrap();
    let directory = root.path().join("a/b");
    let source = CertificateSource::beside(&directory.join("user_settings.py"), Vec::new());
    let now = SystemTime::now();
    let made = source.load(now, Occasion::Start).unwrap();
    assert_eq!(replaced(&made), Some(None));
    assert_eq!((mode(&root.path().join("a")), mode(&directory)), (0o700, 0o700));
    let [certificate, key] = source.files();
    assert_eq!((mode(&certificate), mode(&key)), (0o644, 0o600));
    assert_eq!((certificate, key), (directory.join(CERTIFICATE_FILE), directory.join(KEY_FILE)));
    let mut names: Vec<_> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, [AUTHORITY_FILE, CERTIFICATE_FILE, KEY_FILE], "there is no other file");

    // A process that was killed has left it behind.
    let abandoned = directory.join(format!("{KEY_FILE}.4194304.new"));
    fs::write(&abandoned, "").unwrap();
    let kept = source.load(now, Occasion::Start).unwrap();
    assert_eq!((&kept.identity.cert, kept.warnings), (&made.identity.cert, Vec::new()));
    assert!(!abandoned.exists());
}

#[test]
fn a_pair_is_renewed_a_month_before_its_end() {
    let directory = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let made = load(directory.path(), now).unwrap();
    let renew_at = not_after(&made.identity).unwrap() - 30 * DAY;
    let days = renew_at.duration_since(now).unwrap().as_secs_f64() / DAY.as_secs_f64();
    assert!((788.9..789.1).contains(&days), "{days}");

    let kept = load(directory.path(), renew_at - Duration::from_secs(1)).unwrap();
    assert_eq!(kept.identity.cert, made.identity.cert);
    let renewed = load(directory.path(), renew_at).unwrap();
    assert_ne!(renewed.identity.cert, made.identity.cert);
    assert_eq!(replaced(&renewed), Some(Some("the last one ends in less than 30 days")));
    assert!(not_after(&renewed.identity).unwrap() - 30 * DAY > renew_at + 700 * DAY);
}

/// A clock that was ahead has made it, and no client accepts it.
#[test]
fn a_pair_that_is_not_valid_yet_is_made_anew_at_a_start() {
    let directory = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let ahead = load(directory.path(), now + 1000 * DAY).unwrap();
    let kept = load_again(directory.path(), now, &ahead).unwrap();
    assert_eq!(kept.identity.cert, ahead.identity.cert);
    let [text] = <[String; 1]>::try_from(kept.warnings).unwrap();
    assert!(text.contains(": the certificate is not valid before "), "{text}");
    let again = load(directory.path(), now).unwrap();
    assert_eq!(replaced(&again), Some(Some("the last one is not valid yet")));
    assert_eq!(load(directory.path(), now).unwrap().identity.cert, again.identity.cert);
}

/// People trust the pair, and the clock of a computer without a battery is wrong until the network tells the time.
#[test]
fn a_pair_is_kept_where_the_clock_shows_a_time_before_the_program_was_made() {
    let directory = tempfile::tempdir().unwrap();
    let made = load(directory.path(), SystemTime::now()).unwrap();
    for before in [SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH + 365 * 55 * DAY] {
        assert_eq!(load(directory.path(), before).unwrap().identity.cert, made.identity.cert);
    }
}

#[test]
fn a_clock_outside_the_calendar_does_not_panic() {
    let directory = tempfile::tempdir().unwrap();
    let before_1970 = SystemTime::UNIX_EPOCH - DAY;
    load(directory.path(), before_1970).unwrap();
    let far = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 50);
    assert!(load(directory.path(), far).unwrap_err().to_string().contains("a certificate cannot be made"));
}

/// Each row puts other files in the place of a pair that is served, and has why they are refused, or `None` where they
/// are served. No time comes at which they are written over, also not when the pair that is served is due.
#[test]
fn while_the_gateway_runs_it_writes_over_no_files_that_somebody_has_put_there() {
    let now = SystemTime::now();
    let other = tempfile::tempdir().unwrap();
    load(other.path(), now).unwrap();
    let [certificate, key] = read_pair(other.path());
    let later = tempfile::tempdir().unwrap();
    load(later.path(), now + 10 * DAY).unwrap();
    let earlier = tempfile::tempdir().unwrap();
    load(earlier.path(), now - 800 * DAY).unwrap();
    let nameless = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let nameless = [nameless.cert.pem(), nameless.signing_key.serialize_pem()].map(|text| Some(text.into_bytes()));
    let empty = || Some(Vec::new());
    for (put, refused) in [
        ([None, key.clone()], Some("No such file")),
        ([certificate.clone(), None], Some("No such file")),
        ([empty(), key.clone()], Some("empty")),
        ([certificate.clone(), empty()], Some("empty")),
        ([certificate.clone(), read_pair(later.path())[1].clone()], Some("does not match")),
        ([certificate, key], None),
        (nameless, None),
        (read_pair(later.path()), None),
        (read_pair(earlier.path()), None),
    ] {
        let directory = tempfile::tempdir().unwrap();
        let served = load(directory.path(), now).unwrap();
        for (file, content) in [CERTIFICATE_FILE, KEY_FILE].into_iter().zip(&put) {
            match content {
                Some(content) => fs::write(directory.path().join(file), content).unwrap(),
                None => fs::remove_file(directory.path().join(file)).unwrap(),
            }
        }
        let renew_at = not_after(&served.identity).unwrap() - 30 * DAY;
        for at in [now, renew_at, renew_at + 31 * DAY] {
            let loaded = [
                load_again(directory.path(), at, &served),
                // No certificate is served, since the load at the start has failed.
                load_self_signed(directory.path(), &[], at, Occasion::Run(None)),
            ];
            for loaded in loaded {
                match (loaded, refused) {
                    (Ok(loaded), None) => assert!(loaded.made.is_none()),
                    (Err(error), Some(reason)) => assert!(error.to_string().contains(reason), "{error}"),
                    (loaded, _) => panic!("{refused:?}: {loaded:?}"),
                }
            }
            assert_eq!(read_pair(directory.path()), put, "{refused:?}");
        }
    }
}

#[test]
fn while_the_gateway_runs_a_pair_that_lacks_a_name_is_served_with_a_warning() {
    let directory = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let made = load(directory.path(), now).unwrap();
    let names = ["pi.local".parse().unwrap()];
    let loaded = load_self_signed(directory.path(), &names, now, Occasion::Run(None)).unwrap();
    assert_eq!(loaded.identity.cert, made.identity.cert);
    let [text] = <[String; 1]>::try_from(loaded.warnings).unwrap();
    assert!(text.ends_with("gateway-cert.pem: the certificate does not name pi.local until the next start"), "{text}");
}

#[test]
fn while_the_gateway_runs_a_new_pair_is_made_where_both_files_are_missing_or_the_served_one_is_due() {
    let directory = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let mut served = load(directory.path(), now).unwrap();
    for made_where in [Occasion::Run(Some(&served.identity.clone())), Occasion::Run(None)] {
        [CERTIFICATE_FILE, KEY_FILE].iter().for_each(|file| fs::remove_file(directory.path().join(file)).unwrap());
        served = load_self_signed(directory.path(), &[], now, made_where).unwrap();
        assert_eq!(replaced(&served), Some(None));
    }
    let renew_at = not_after(&served.identity).unwrap() - 30 * DAY;
    assert_eq!(replaced(&load_again(directory.path(), renew_at - Duration::from_secs(1), &served).unwrap()), None);
    let renewed = load_again(directory.path(), renew_at, &served).unwrap();
    assert_eq!(replaced(&renewed), Some(Some("the last one ends in less than 30 days")));
}

/// A link whose target is away may lead to a pair again.
#[test]
fn while_the_gateway_runs_links_that_lead_nowhere_stay() {
    let directory = tempfile::tempdir().unwrap();
    for file in [CERTIFICATE_FILE, KEY_FILE] {
        symlink(directory.path().join("away").join(file), directory.path().join(file)).unwrap();
    }
    load_self_signed(directory.path(), &[], SystemTime::now(), Occasion::Run(None)).unwrap_err();
    assert!(fs::symlink_metadata(directory.path().join(KEY_FILE)).unwrap().is_symlink());
}

#[test]
fn one_file_without_the_other_is_replaced() {
    for lost in [CERTIFICATE_FILE, KEY_FILE] {
        let directory = tempfile::tempdir().unwrap();
        let now = SystemTime::now();
        let made = load(directory.path(), now).unwrap();
        fs::remove_file(directory.path().join(lost)).unwrap();
        let again = load(directory.path(), now).unwrap();
        assert_ne!(again.identity.cert, made.identity.cert);
        assert!(replaced(&again).unwrap().unwrap().contains(lost));
        assert_eq!(load(directory.path(), now).unwrap().identity.cert, again.identity.cert);
    }
}

#[test]
fn damaged_files_and_files_that_do_not_belong_together_are_replaced() {
    let now = SystemTime::now();
    let other = tempfile::tempdir().unwrap();
    load(other.path(), now).unwrap();
    let key_of_another = fs::read(other.path().join(KEY_FILE)).unwrap();
    let damaged = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec();
    for (file, content, reason) in [
        (KEY_FILE, key_of_another, "does not match"),
        (KEY_FILE, Vec::new(), "empty"),
        (CERTIFICATE_FILE, damaged, "not a valid X.509"),
        (CERTIFICATE_FILE, b"no PEM".to_vec(), "no certificate"),
    ] {
        let directory = tempfile::tempdir().unwrap();
        load(directory.path(), now).unwrap();
        fs::write(directory.path().join(file), content).unwrap();
        let again = load(directory.path(), now).unwrap();
        assert!(replaced(&again).unwrap().unwrap().contains(reason), "{:?}", again.made);
        assert_eq!(mode(&directory.path().join(KEY_FILE)), 0o600);
    }
}

#[test]
fn a_pair_with_other_names_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let pair = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()]).unwrap();
    fs::write(directory.path().join(CERTIFICATE_FILE), pair.cert.pem()).unwrap();
    fs::write(directory.path().join(KEY_FILE), pair.signing_key.serialize_pem()).unwrap();
    // The default validity of rcgen ends in the year 4096.
    let again = load(directory.path(), SystemTime::now()).unwrap();
    assert_eq!(replaced(&again), Some(Some("the last one does not name ::1")));
}

#[test]
fn a_pair_is_replaced_where_a_wanted_name_is_missing() {
    let directory = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let load = |names: &[&str], at| {
        let names: Vec<CertificateName> = names.iter().map(|name| name.parse().unwrap()).collect();
        load_self_signed(directory.path(), &names, at, Occasion::Start).unwrap()
    };
    load(&[], now);
    let first = load(&["pi.local", "localhost", "my_pi", "192.0.2.7", "Pi.local"], now);
    assert_eq!(replaced(&first), Some(Some("the last one does not name pi.local, my_pi, 192.0.2.7")));
    for names in [&["PI.local", "192.0.2.7"][..], &["my_pi"], &[]] {
        assert_eq!(load(names, now).identity.cert, first.identity.cert, "{names:?}");
    }
    let second = load(&["2001:db8::1"], now);
    assert_eq!(replaced(&second), Some(Some("the last one does not name 2001:db8::1")));
    let renewed = load(&["2001:db8::1"], not_after(&second.identity).unwrap() - 30 * DAY);
    assert_eq!(replaced(&renewed), Some(Some("the last one ends in less than 30 days")));
}

#[test]
fn a_key_with_permissions_for_others_is_kept_and_loses_them() {
    let directory = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    load(directory.path(), now).unwrap();
    let key = directory.path().join(KEY_FILE);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let source = CertificateSource::SelfSigned { directory: directory.path().into(), names: Vec::new() };
    let closed = source.close_key();
    let expected = "the private key was open to others than its owner (mode 0644) and is now closed (0600); if anyone may \
                    have read it, remove it with its certificate, and the gateway makes new ones";
    assert_eq!(closed, Some(format!("{}: {expected}", key.display())));
    assert_eq!(mode(&key), 0o600);

    // Nothing is said of what the system refuses. This file belongs to the kernel.
    fs::remove_file(&key).unwrap();
    symlink("/proc/self/status", &key).unwrap();
    assert_eq!(source.close_key(), None);
}

#[test]
fn a_directory_in_place_of_a_file_is_not_replaced() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join(KEY_FILE)).unwrap();
    load(directory.path(), SystemTime::now()).unwrap_err();
    let directory = tempfile::tempdir().unwrap();
    load(directory.path(), SystemTime::now()).unwrap();
    fs::remove_file(directory.path().join(CERTIFICATE_FILE)).unwrap();
    fs::create_dir(directory.path().join(CERTIFICATE_FILE)).unwrap();
    let error = load(directory.path(), SystemTime::now()).unwrap_err();
    assert_eq!(error.path, directory.path().join(CERTIFICATE_FILE));
    assert_eq!(error.reason, "not a regular file; a folder is there: name a file, or move it away");
}

#[test]
fn an_error_names_the_directory_that_cannot_be_created() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let source = CertificateSource::beside(&file.join("below/user_settings.py"), Vec::new());
    let error = source.load(SystemTime::now(), Occasion::Start).unwrap_err().to_string();
    assert!(error.starts_with(&format!("{}: cannot be written: ", file.join("below").display())), "{error}");
}

#[test]
fn a_dangling_link_in_place_of_a_file_is_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let outside = directory.path().join("outside");
    symlink(&outside, directory.path().join(KEY_FILE)).unwrap();
    load(directory.path(), SystemTime::now()).unwrap();
    assert!(!outside.exists(), "a key is never written through a link");
    assert!(fs::symlink_metadata(directory.path().join(KEY_FILE)).unwrap().is_file());
}

#[test]
fn gateways_that_start_at_the_same_time_use_the_same_pair() {
    let directory = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let identities: Vec<_> = std::thread::scope(|scope| {
        let loads: Vec<_> = (0..8).map(|_| scope.spawn(|| load(directory.path(), now).unwrap().identity)).collect();
        loads.into_iter().map(|load| load.join().unwrap()).collect()
    });
    assert!(identities.iter().all(|identity| identity.cert == identities[0].cert));
}

#[test]
fn a_lock_that_is_held_is_waited_for_and_then_done_without() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let held = fs::File::open(path).unwrap();
    held.lock().unwrap();
    let made = load(path, SystemTime::now()).unwrap();
    let expected = format!("{}: the certificate was made without the lock: another process holds it", path.display());
    assert_eq!((replaced(&made), &made.warnings), (Some(None), &vec![expected]));
    // A pair that can be used needs no lock.
    assert_eq!(load(directory.path(), SystemTime::now()).unwrap().warnings, Vec::<String>::new());
}

/// A directory in place of the third file makes the renewal fail at its end.
#[test]
fn a_renewal_that_fails_keeps_both_files_of_the_last_pair() {
    let directory = tempfile::tempdir().unwrap();
    let now = SystemTime::now();
    let made = load(directory.path(), now).unwrap();
    let renew_at = not_after(&made.identity).unwrap() - 30 * DAY;
    let draft = directory.path().join(format!("{AUTHORITY_FILE}.{}.new", std::process::id()));
    fs::create_dir(&draft).unwrap();
    let kept = load(directory.path(), renew_at).unwrap();
    assert_eq!(kept.identity.cert, made.identity.cert);
    assert!(kept.not_renewed.is_some() && kept.warnings.is_empty(), "{:?}", kept.warnings);
    load(directory.path(), renew_at + 31 * DAY).expect_err("the pair has ended");
    fs::remove_dir(&draft).unwrap();
    assert_eq!(
        replaced(&load(directory.path(), renew_at).unwrap()),
        Some(Some("the last one ends in less than 30 days"))
    );
}
