//! If this fails, `bbq send` tries again for ever although no time will help: an address that is invalid, or a socket that this user
//! may not open.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::process::Command;

use crate::support::{BBQ, refused_start};
use rustix::process::geteuid;

/// Sends a line as a user without privilege.
fn send(address: &str) -> (Option<i32>, String) {
    let mut command = if geteuid().is_root() {
        // As the user nobody: root may open any socket.
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", BBQ]);
        command
    } else {
        Command::new(BBQ)
    };
    refused_start(command.args(["send", "--to", address, "/etc/os-release"]))
}

#[test]
fn an_address_that_cannot_be_one_is_a_wrong_usage() {
    let long = format!("bbq+unix:///{}", "x".repeat(120));
    for (address, words) in [
        ("bbq://[::1]:1:2", "no IPv6 address"),
        ("bbq://::1:7700", "in brackets"),
        ("bbq://a host:7700", "neither a name"),
        ("bbq://user@host:7700", "neither a name"),
        (long.as_str(), "107 bytes"),
    ] {
        let (code, text) = send(address);
        assert!(code == Some(2) && text.contains(words), "{address}: {code:?} {text}");
    }
}

#[test]
fn a_socket_that_is_not_for_this_user_ends_it() {
    let directory = tempfile::tempdir().expect("a directory");
    fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).expect("it is ours");
    let path = directory.path().join("socket");
    let _listener = UnixListener::bind(&path).expect("a socket");
    fs::set_permissions(&path, Permissions::from_mode(0o000)).expect("it is ours");
    let address = format!("bbq+unix://{}", path.display());
    let (code, text) = send(&address);
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("Permission denied") && text.contains(&address), "{text}");
}
