//! What the system refuses to an ordinary user is told with what to do about it.

use crate::support::*;

/// The home of an ordinary user, with settings and the program, which that user may have no permission for elsewhere.
struct Home {
    directory: TempDir,
    settings: PathBuf,
}

impl Home {
    fn new() -> Self {
        let (directory, settings) = temporary_path(".config/adapter/user_settings.py");
        set_mode(directory.path(), 0o755);
        fs::create_dir_all(settings.parent().unwrap()).unwrap();
        fs::write(&settings, enabled(&token("a"))).unwrap();
        set_mode(&settings, 0o600);
        copy_binary(&directory.path().join("adapter-gateway"));
        let home = Self { directory, settings };
        home.give(NOBODY, ["", ".config", ".config/adapter", ".config/adapter/user_settings.py"]);
        home
    }

    fn give<'a>(&self, user: u32, names: impl IntoIterator<Item = &'a str>) {
        names.into_iter().for_each(|name| chown(self.path(name), Some(user), Some(user)).unwrap());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path("adapter-gateway"));
        command.args(arguments).env("HOME", self.path("")).env_remove("XDG_CONFIG_HOME").stdin(Stdio::null());
        command
    }

    fn fails(&self, arguments: &[&str], status: i32) -> String {
        Process::spawn(self.command(arguments).uid(NOBODY).gid(NOBODY)).finish(status).stderr.trim_end().to_owned()
    }
}

/// As after a command that was run with `sudo`.
#[test]
fn what_belongs_to_root_in_the_home_of_a_user_is_to_be_given_to_that_user() {
    needs!(can_give_away());
    let home = Home::new();
    let cure = |name: &str| {
        let path = home.path(name);
        format!("(os error 13); it belongs to root: `sudo chown -R {NOBODY} '{}'` gives it to you", path.display())
    };
    let not_read = |cure: &str| {
        let served = &mut Process::spawn(home.command(&["serve", "--plain"]).uid(NOBODY).gid(NOBODY));
        served.wait_event("disabled")["reason"].as_str().unwrap().to_owned().ends(cure);
        home.fails(&["send", "t", "{}"], 3).ends(cure);
    };
    let not_edited = |cure: &str| {
        home.fails(&["enable"], 3).has(cure.replace("; it", "; nothing is changed; it"));
    };
    home.give(0, [".config/adapter/user_settings.py"]);
    let of_file = cure(".config/adapter/user_settings.py");
    not_read(&of_file);
    not_edited(&of_file);
    home.give(0, [".config/adapter"]);
    let of_folder = cure(".config/adapter");
    set_mode(&home.path(".config/adapter"), 0o700);
    not_read(&of_folder);
    not_edited(&of_folder);
    set_mode(&home.path(".config/adapter"), 0o755);
    home.give(NOBODY, [".config/adapter/user_settings.py"]);
    home.fails(&["serve"], 3).has(&of_folder);

    home.give(NOBODY, [".config/adapter"]);
    let key = home.path(".config/adapter/gateway-key.pem");
    Process::spawn(home.command(&["serve", "--listen", "127.0.0.1:0"]).uid(NOBODY).gid(NOBODY)).wait_event("listening");
    home.give(0, [".config/adapter/gateway-key.pem"]);
    let unread = home.fails(&["serve", "--listen", "127.0.0.1:0"], 3);
    assert!(key.exists() && unread.ends_with(&cure(".config/adapter/gateway-key.pem")), "{unread}");
}

/// To give away a folder of the system would be harmful.
#[test]
fn what_belongs_to_root_elsewhere_stays_and_what_the_user_has_closed_is_to_be_opened() {
    needs!(can_give_away());
    let (home, folder) = (Home::new(), tempfile::tempdir().unwrap());
    let path = folder.path().join("user_settings.py");
    let (folder, settings) = (folder.path().display(), home.settings.display());
    home.fails(&["enable", "--settings", path.to_str().unwrap()], 3)
        .ends(format!("{folder} belongs to user number 0, who may permit it; or name another place"));
    set_mode(&home.settings, 0);
    home.fails(&["send", "t", "{}"], 3).ends(format!("`chmod u+rwX '{settings}'` opens it"));
}

#[test]
fn a_port_of_root_is_to_be_permitted_or_another_one_used() {
    needs!(can_give_away() && is_possible("unshare --net true"));
    let home = Home::new();
    let low = "unshare --net sh -c 'echo 1024 > /proc/sys/net/ipv4/ip_unprivileged_port_start && exec \"$@\"' sh";
    let as_nobody = format!("exec {low} setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups \"$@\"");
    for (options, port, status) in [
        (&["--listen", "0.0.0.0:443"][..], 443, 4),
        (&["--listen", "0.0.0.0:0", "--hub", "--hub-publishers", "tcp://0.0.0.0:80"], 80, 3),
    ] {
        let command = home.command(&[&["serve", "--plain"], options].concat());
        let told = Process::spawn(&mut after(&as_nobody, &command)).finish(status).stderr;
        let cure = format!("`sudo sysctl net.ipv4.ip_unprivileged_port_start={port}`\n");
        told.ends(format!("use a port from 1024 on, or permit this one: {cure}"));
    }
}

/// A computer without a battery begins in 1970.
const CLOCK_OF_1970: &str = "#define _GNU_SOURCE
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    if (clock == CLOCK_REALTIME) time->tv_sec = 60;
    return result;
}
";

#[test]
fn a_clock_that_is_wrong_is_named_with_its_date() {
    let (_directory, [source, library]) = temporary_paths(["clock.c", "clock.so"]);
    fs::write(&source, CLOCK_OF_1970).unwrap();
    let built = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status();
    if !built.is_ok_and(|status| status.success()) {
        return skip("no C compiler is here, which makes a clock that is wrong");
    }
    let cure = "the clock of this computer says 1970-01-01: set it if that is wrong";
    let gateway = Gateway::serve().https().start();
    let wrong = |command: &str, options: &[&str]| {
        let mut run = binary();
        run.arg(command).args(options).arg("--settings").arg(gateway.settings.path()).env("LD_PRELOAD", &library);
        Process::spawn(&mut run)
    };
    let url = format!("https://localhost:{}", gateway.address().port());
    wrong("send", &["t", "{}", "--url", &url]).finish(5).stderr.trim_end().ends(cure).lacks("UNIX");
    wrong("serve", &["--listen", "127.0.0.1:0"]).wait_log(cure);
}

/// A program that `sudo` runs has the home of root.
#[test]
fn settings_of_root_that_sudo_has_the_program_look_for_are_no_file_to_enable() {
    needs!(is_possible("unshare --user --map-root-user true"));
    let home = tempfile::tempdir().unwrap();
    let start_by_sudo = |arguments: &[&str]| {
        let mut command = binary();
        command.args(arguments).env("HOME", home.path()).env("SUDO_UID", "1000").env_remove("XDG_CONFIG_HOME");
        Process::spawn(&mut after(&unshared("", "true"), &command))
    };
    let told = |Transcript { stdout, stderr }| stdout + &stderr;
    let cure = "sudo may have this program use another home than yours: run it without sudo, or use --settings";
    start_by_sudo(&["serve", "--listen", "127.0.0.1:0"]).wait_log(&format!("warning: {cure}"));
    told(start_by_sudo(&["send", "t", "{}"]).finish(3)).trim_end().ends(cure).lacks("enable");
    told(start_by_sudo(&["enable"]).finish(0)).has(cure);
}

#[test]
fn what_cannot_be_written_by_hand_either_is_not_to_be_written_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let told = run(["enable", "--settings", folder.path().to_str().unwrap()], 3).stderr;
    told.ends("nothing is changed; a folder is there: name a file, or move it away\n");
    needs!(can_mount());
    let mut enable = binary();
    enable.args(["enable", "--settings"]).arg(folder.path().join("user_settings.py"));
    for (options, cure) in [
        ("-o nr_inodes=1", "; nothing is changed; make room on that disk\n"),
        ("-o ro", "; nothing is changed; that disk cannot be written: name another place\n"),
    ] {
        let mount = format!("mount -t tmpfs {options} none {}", folder.path().display());
        Process::spawn(&mut after(&unshared("--mount", &mount), &enable)).finish(3).stderr.ends(cure);
    }
}
