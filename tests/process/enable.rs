//! `enable` and `disable`: the settings say what was asked for. `settings` has a gateway that follows.

use rustix::buffer::spare_capacity;
use rustix::fs::{XattrFlags, getxattr, setxattr};

use crate::support::*;

fn switch(command: &str, settings: &Path, status: i32) -> Transcript {
    run([command, "--settings", settings.to_str().unwrap()], status)
}

fn files_beside(settings: &Path) -> usize {
    entries(settings.parent().unwrap()).count()
}

#[test]
fn enable_makes_folder_file_and_token_and_shows_no_token_and_disable_makes_no_file() {
    let (_directory, settings) = temporary_path("config/adapter/user_settings.py");
    switch("disable", &settings, 0).stdout.has("already");
    assert!(!settings.parent().unwrap().exists());

    let transcript = switch("enable", &settings, 0);
    let printed = transcript.stdout.as_str().has("switched on").has("a new random token");
    for command in ["serve", "send"] {
        printed.has(format!("\nadapter-gateway {command} --settings '{}'", settings.display()));
    }
    printed.has("start the adapter, or run a hub here with `--hub`");
    let token = written_token(&settings);
    assert!(token.len() >= 32 && !transcript.stdout.contains(&token) && transcript.stderr.is_empty(), "{transcript:?}");
    assert_eq!((mode(&settings), mode(settings.parent().unwrap())), (0o600, 0o700));
    assert_eq!(files_beside(&settings), 1, "no draft is left");

    let before = fs::metadata(&settings).unwrap().ino();
    switch("enable", &settings, 0).stdout.has("already");
    assert_eq!(fs::metadata(&settings).unwrap().ino(), before, "nothing is written");

    switch("disable", &settings, 0).stdout.has("switched off");
    assert_eq!(fs::read_to_string(&settings).unwrap(), format!("OPEN_REST_API = False\nTOKEN = \"{token}\"\n"));
    switch("enable", &settings, 0).stdout.has("the same token");
    assert_eq!(fs::read_to_string(&settings).unwrap(), format!("OPEN_REST_API = True\nTOKEN = \"{token}\"\n"));
}

#[test]
fn a_token_that_is_kept_is_judged() {
    let (_directory, settings) = temporary_path("user_settings.py");
    for (token, flaw) in [("short", "fewer than 16 characters"), ("with a blank at its end ", "white space")] {
        fs::write(&settings, format!("TOKEN = '{token}'\n")).unwrap();
        for state in ["the same token", "already"] {
            switch("enable", &settings, 0).stdout.has(state).has(flaw).lacks(token);
        }
        assert!(!switch("disable", &settings, 0).stdout.contains(flaw));
    }
}

#[test]
fn a_file_behind_links_is_replaced_with_its_mode_and_its_owner() {
    let (directory, [file, link, other]) = temporary_paths(["real.py", "link.py", "other.py"]);
    fs::write(&file, "# mine\nTOKEN = 'abcdefghijklmnop'\n").unwrap();
    set_mode(&file, 0o640);
    symlink("real.py", &link).unwrap();
    symlink(&link, &other).unwrap();
    let is_given = can_give_away();
    if is_given {
        chown(&file, Some(65_534), Some(65_533)).unwrap();
    }
    switch("enable", &other, 0);
    let text = fs::read_to_string(&file).unwrap();
    assert_eq!(text, "# mine\nTOKEN = 'abcdefghijklmnop'\nOPEN_REST_API = True\n");
    assert!(fs::symlink_metadata(&other).unwrap().is_symlink() && fs::symlink_metadata(&link).unwrap().is_symlink());
    let metadata = fs::metadata(&file).unwrap();
    assert_eq!(mode(&file), 0o640);
    assert!(!is_given || (metadata.uid(), metadata.gid()) == (65_534, 65_533));
    // A link to a file that does not exist yet leads to the new one.
    let dangling = directory.path().join("dangling.py");
    symlink("made/here.py", &dangling).unwrap();
    switch("enable", &dangling, 0);
    assert!(written_token(&directory.path().join("made/here.py")).len() >= 32);
}

/// As after `sudo cp` and `sudo chown`.
#[test]
fn a_group_that_the_user_is_not_in_is_given_up_if_it_has_no_permissions() {
    needs!(can_give_away());
    let (directory, [program, settings]) = temporary_paths(["adapter-gateway", "user_settings.py"]);
    copy_binary(&program);
    fs::write(&settings, "TOKEN = 'abcdefghijklmnop'\n").unwrap();
    chown(directory.path(), Some(65_534), Some(65_534)).unwrap();
    chown(&settings, Some(65_534), Some(65_533)).unwrap();
    for (permissions, status) in [(0o640, 3), (0o600, 0)] {
        set_mode(&settings, permissions);
        let mut command = Command::new(&program);
        command.args(["enable", "--settings"]).arg(&settings).uid(65_534).gid(65_534).stdin(Stdio::null());
        let said = Process::spawn(&mut command).finish(status).stderr;
        assert_eq!(said.contains("the owner of the file cannot be kept"), status == 3, "{said}");
        assert_eq!((mode(&settings), fs::metadata(&settings).unwrap().uid()), (permissions, 65_534));
    }
}

/// The access list lets user 1234 read the file, and nobody of its group, whom the mode alone would let in.
#[test]
fn the_access_list_and_the_other_attributes_stay() {
    let access_list = |entries: &[(u16, u16, u32)]| {
        let entries = entries.iter().map(|(tag, permissions, id)| {
            [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
        });
        [2_u32.to_le_bytes().to_vec()].into_iter().chain(entries).collect::<Vec<_>>().concat()
    };
    let none = u32::MAX;
    let given = access_list(&[(1, 6, none), (2, 4, 1234), (4, 0, none), (16, 4, none), (32, 0, none)]);
    let of_directory = access_list(&[(1, 7, none), (2, 7, 99), (4, 7, none), (16, 7, none), (32, 0, none)]);
    let (directory, [settings, plain]) = temporary_paths(["user_settings.py", "plain.py"]);
    let set = |path: &Path, name: &str, value: &[u8]| setxattr(path, name, value, XattrFlags::empty());
    for path in [&settings, &plain] {
        fs::write(path, "TOKEN = 'abcdefghijklmnop'\n").unwrap();
        set_mode(path, 0o640);
    }
    let is_supported = set(&settings, "system.posix_acl_access", &given).and_then(|()| {
        set(directory.path(), "system.posix_acl_default", &of_directory)?;
        set(&settings, "user.origin", b"dotfiles")
    });
    if let Err(error) = is_supported {
        return skip(&format!("access lists cannot be set here: {error}"));
    }
    switch("enable", &settings, 0);
    for (name, value) in [("system.posix_acl_access", &given[..]), ("user.origin", b"dotfiles")] {
        let mut found = Vec::with_capacity(4096);
        getxattr(&settings, name, spare_capacity(&mut found)).unwrap();
        assert_eq!(found, value, "{name}");
    }
    switch("enable", &plain, 0);
    let found = getxattr(&plain, "system.posix_acl_access", &mut [0; 64]);
    assert_eq!((found.err(), mode(&plain)), (Some(Errno::NODATA), 0o640));
}

/// Each run gives up its edit, and begins anew, where the other program has replaced what it had read, or has it open.
#[test]
fn no_line_of_a_program_that_replaces_the_file_or_appends_to_it_is_lost() {
    side_by_side([false, true], |appends| {
        let (_directory, [settings, draft]) = temporary_paths(["user_settings.py", "draft"]);
        fs::write(&settings, "TOKEN = 'abcdefghijklmnop'\n").unwrap();
        let mut written = 0;
        thread::scope(|threads| {
            let runs =
                threads.spawn(|| ["enable", "disable"].repeat(50).iter().for_each(|it| drop(switch(it, &settings, 0))));
            while !runs.is_finished() {
                // Now many lines come during an edit, now none, on a slow machine too.
                let pause = || thread::sleep(Duration::from_millis(1 << (written % 9)));
                if appends {
                    let mut file = fs::File::options().append(true).open(&settings).unwrap();
                    pause();
                    writeln!(file, "# {written}").unwrap();
                } else {
                    fs::write(&draft, fs::read_to_string(&settings).unwrap() + &format!("# {written}\n")).unwrap();
                    fs::rename(&draft, &settings).unwrap();
                }
                pause();
                written += 1;
            }
        });
        let text = fs::read_to_string(&settings).unwrap();
        let lost: Vec<_> = (0..written).filter(|line| !text.contains(&format!("# {line}\n"))).collect();
        assert!(lost.is_empty(), "{appends}: {} of {written} lines are lost: {lost:?}", lost.len());
    });
}

#[test]
fn of_several_at_once_one_makes_the_token() {
    for path in ["user_settings.py", "adapter/user_settings.py"].repeat(5) {
        let (_directory, settings) = temporary_path(path);
        let printed = Mutex::new(String::new());
        side_by_side([(); 3], |()| {
            let transcript = switch("enable", &settings, 0);
            printed.lock().unwrap().push_str(&transcript.stdout);
        });
        let made = printed.into_inner().unwrap().matches("a new random token").count();
        assert_eq!((made, fs::read_to_string(&settings).unwrap().matches("TOKEN").count()), (1, 1));
        assert_eq!(files_beside(&settings), 1, "no draft is left");
    }
}

#[test]
fn a_file_with_another_name_and_a_mounted_one_are_written_in_place() {
    let (_directory, [settings, other]) = temporary_paths(["user_settings.py", "other.py"]);
    let [off, on] = ["False", "True"].map(|value| format!("OPEN_REST_API = {value}\nTOKEN = 'abcdefghijklmnop'\n"));
    fs::write(&settings, &off).unwrap();
    fs::hard_link(&settings, &other).unwrap();
    switch("enable", &settings, 0);
    assert_eq!(fs::read_to_string(&other).unwrap(), on);
    assert_eq!(fs::metadata(&other).unwrap().ino(), fs::metadata(&settings).unwrap().ino());
    fs::remove_file(&settings).unwrap();
    fs::write(&settings, "").unwrap();
    needs!(can_mount());
    let mut command = binary();
    command.args(["disable", "--settings"]).arg(&settings);
    let script = unshared("--mount", &format!("mount --bind {} {}", other.display(), settings.display()));
    Process::spawn(&mut after(&script, &command)).finish(0);
    assert_eq!(fs::read_to_string(&other).unwrap(), off);
    assert_eq!(files_beside(&settings), 2, "no draft is left");
}

#[test]
fn a_file_system_that_cannot_exchange_files_is_no_reason_to_refuse_and_a_draft_of_a_killed_process_is_removed() {
    let (_directory, settings) = temporary_path("user_settings.py");
    let refusal = Refusal { call: libc::SYS_renameat2, argument: None, errno: Errno::INVAL };
    refusal.during(|| switch("enable", &settings, 0));
    let made = written_token(&settings);
    refusal.during(|| switch("disable", &settings, 0));
    assert_eq!(fs::read_to_string(&settings).unwrap(), format!("OPEN_REST_API = False\nTOKEN = \"{made}\"\n"));
    assert_eq!(files_beside(&settings), 1, "no draft is left");

    fs::remove_file(&settings).unwrap();
    // No process has such a number on Linux.
    let [killed, alive, other] = ["4194305", &std::process::id().to_string(), "x"]
        .map(|process| settings.parent().unwrap().join(format!("user_settings.py.{process}.new")));
    for draft in [&killed, &alive, &other] {
        fs::write(draft, "TOKEN = 'abcdefghijklmnop'\n").unwrap();
    }
    switch("enable", &settings, 0);
    assert!(!killed.exists() && alive.exists() && other.exists(), "only the draft is one");
}

/// An editor empties a file, then writes it.
#[test]
fn a_file_that_has_just_become_empty_is_looked_at_again() {
    let (_directory, settings) = temporary_path("user_settings.py");
    for (command, text) in [("enable", "a new random token"), ("disable", "already")] {
        let since = Instant::now();
        fs::write(&settings, "").unwrap();
        switch(command, &settings, 0).stdout.has(text);
        assert!(since.elapsed() >= Duration::from_millis(200), "{command} after {:?}", since.elapsed());
    }
}

#[test]
fn what_cannot_be_edited_stays_and_is_named_with_its_line_and_a_file_that_may_not_grow_leaves_nothing_behind() {
    let (_directory, settings) = temporary_path("user_settings.py");
    let mut command = binary();
    command.args(["enable", "--settings"]).arg(&settings);
    Process::spawn(&mut after("ulimit -f 0", &command)).finish(3);
    assert_eq!(files_beside(&settings), 0);

    for (text, place) in [
        ("OPEN_REST_API = f()\n", ":1:17: OPEN_REST_API is not a literal; write True or False"),
        ("x = (\n", ":2:1: unexpected end of the file"),
    ] {
        fs::write(&settings, text).unwrap();
        let Transcript { stdout, stderr } = switch("enable", &settings, 3);
        assert_eq!(stdout, "");
        assert!(stderr.contains(place) && stderr.contains("nothing is changed"), "{stderr}");
        assert_eq!(fs::read_to_string(&settings).unwrap(), text);
    }
    let told = switch("enable", &settings.join("adapter/user_settings.py"), 3).stderr;
    told.has("write OPEN_REST_API = True, and TOKEN =");
}
