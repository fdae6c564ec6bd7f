//! If this fails, the edge and the centre of docs/EDGE.md do not pass on a message when a user pastes their configurations. Only addresses
//! and paths are replaced.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::authority::Authority;
use crate::support::{BBQ, Setup, free_ports, run};

const PAGE: &str = include_str!("../../../../docs/EDGE.md");

/// A server with the TOML that begins with this comment.
fn of_page(comment: &str, replaced: &[(&str, &str)]) -> Setup {
    let (_, rest) = PAGE.split_once(&format!("```toml\n# {comment}\n")).expect("a configuration");
    let mut toml = rest.split("```").next().unwrap_or_default().to_owned();
    let mut setup = Setup::new(&[]);
    let directory = setup.path().display().to_string();
    for (from, to) in [("/etc/bbq", &*directory), ("/var/log/bbq", &*directory)].iter().chain(replaced) {
        toml = toml.replace(from, to);
    }
    setup.set_sinks(&[]);
    setup.config(&toml)
}

/// The tokens of the page: NAME TOKEN relay, a line each.
fn tokens() -> Vec<&'static str> {
    PAGE.lines().map(str::trim).filter(|line| line.starts_with("edge-") && line.ends_with(" relay")).collect()
}

fn write_secret(path: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::write(path, text).expect("a file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o600)).expect("permissions");
}

#[test]
fn the_configurations_of_the_page_pass_on_a_message() {
    let authority = Authority::new("a test's authority");
    let ports: Vec<String> = free_ports(4).iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let at_centre = format!("localhost:{}", ports[0].rsplit_once(':').expect("a port").1);

    let centre = of_page("/etc/bbq/bbq.toml of the central server", &[("0.0.0.0:7700", &ports[0])]);
    authority.sign("localhost").write(centre.path(), "centre");
    for (from, to) in [("centre-cert.pem", "cert.pem"), ("centre-key.pem", "key.pem")] {
        fs::rename(centre.path().join(from), centre.path().join(to)).expect("a file");
    }
    let tokens = tokens();
    assert!(tokens.len() > 1, "the page has no tokens");
    write_secret(&centre.path().join("tokens"), &format!("{}\n", tokens.join("\n")));

    let addresses = [
        ("127.0.0.1:7700", &*ports[1]),
        ("127.0.0.1:5514", &*ports[2]),
        ("127.0.0.1:7780", &*ports[3]),
        ("logs.example:7700", &*at_centre),
    ];
    let edge = of_page("/etc/bbq/bbq.toml of a host", &addresses);
    fs::write(edge.path().join("ca.pem"), authority.certificate()).expect("a file");
    write_secret(&edge.path().join("token"), tokens[0].split(' ').nth(1).expect("a token"));

    let at_edge = edge.start();
    let at_centre = centre.start();
    let to = format!("bbq://{}", ports[1]);
    let send = ["send", "--ack", "replicated", "--to", &to];
    run(Command::new(BBQ).args(send), b"first message\n");
    at_edge.wait_delivered(1);
    at_centre.wait_delivered(1);
    assert_eq!(fs::read_to_string(centre.path().join("all.log")).expect("the output"), "first message\n");
    assert_eq!((at_edge.stop(), at_centre.stop()), (Some(0), Some(0)), "{}{}", edge.log(), centre.log());
}
