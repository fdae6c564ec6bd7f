//! If this fails, programs of other users cannot send to a unix socket, or those can that were to be kept out.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use crate::support::Setup;

/// A user that owns nothing here: nobody.
const OTHER_USER: u32 = 65_534;

/// Whether `logger` can send a message to a socket as another user. Only root can try that.
fn other_user_can_send(setup: &Setup, socket: &str, message: &str) -> bool {
    let mut logger = Command::new("logger");
    logger.args(["--socket-errors=on", "--socket"]).arg(setup.path().join(socket)).arg(message);
    let output = logger.uid(OTHER_USER).gid(OTHER_USER).output().expect("logger is there");
    output.status.success()
}

fn mode(setup: &Setup, socket: &str) -> u32 {
    fs::metadata(setup.path().join(socket)).expect("a socket").permissions().mode() & 0o7777
}

#[test]
fn other_users_can_send_unless_the_mode_says_otherwise() {
    let setup =
        Setup::new(&["syslog+unixgram://{dir}/open", "syslog+unixgram://{dir}/closed?mode=0600&group=4321"]);
    fs::set_permissions(setup.path(), fs::Permissions::from_mode(0o755)).expect("permissions");
    if !rustix::process::geteuid().is_root() {
        return;
    }
    // The umask that services mostly have does not count.
    let setup = setup.prefix(&["sh", "-c", "umask 027; exec \"$@\"", "sh"]);
    let server = setup.start();
    assert_eq!((mode(&setup, "open"), mode(&setup, "closed")), (0o666, 0o600));
    assert_eq!(fs::metadata(setup.path().join("closed")).expect("a socket").gid(), 4321);
    assert!(other_user_can_send(&setup, "open", "from another user"));
    assert!(!other_user_can_send(&setup, "closed", "kept out"));
    server.wait_delivered(1);
    assert_eq!(server.stop(), Some(0));
    let written = String::from_utf8(setup.written()).expect("text");
    assert!(written.contains("from another user") && !written.contains("kept out"), "{written}");
}

#[test]
fn a_reload_changes_the_file_of_an_open_socket() {
    let setup = Setup::new(&[]).config("listen = [\"lines+unix:///tmp/never\"]\n");
    let configure = |mode: &str| {
        let socket = setup.path().join("socket");
        let text = format!("[[listen]]\nspec = \"lines+unix://{}\"\nmode = \"{mode}\"\n", socket.display());
        fs::write(setup.path().join("new.toml"), text).expect("a file");
        fs::rename(setup.path().join("new.toml"), setup.path().join("bbq.toml")).expect("renamed");
    };
    configure("0640");
    let server = setup.start();
    assert_eq!(mode(&setup, "socket"), 0o640);
    configure("0604");
    server.signal(libc::SIGHUP);
    server.wait_log("reloaded");
    assert_eq!(mode(&setup, "socket"), 0o604);
    // A number is the mode in decimal to TOML: refused, and the server goes on as before.
    fs::write(
        setup.path().join("bbq.toml"),
        format!("[[listen]]\nspec = \"lines+unix://{}/socket\"\nmode = 0o660\n", setup.path().display()),
    )
    .expect("a file");
    server.signal(libc::SIGHUP);
    server.wait_log("is not a mode; write four octal digits");
    assert_eq!(mode(&setup, "socket"), 0o604);
}
