//! If this fails, a command asks another server than the one that is meant, or refuses an address that its user has at hand.

#![expect(clippy::expect_used, reason = "a test's helpers panic, too")]

use std::process::{Command, Output};

use crate::support::{BBQ, Setup};

fn status(arguments: &[&str], variable: Option<&str>) -> Output {
    let mut command = Command::new(BBQ);
    command.arg("status").args(arguments).env_remove("BBQ_ADMIN");
    command.envs(variable.map(|value| ("BBQ_ADMIN", value))).output().expect("it runs")
}

fn shows(output: &Output, server: &Setup) -> bool {
    output.status.success()
        && String::from_utf8_lossy(&output.stdout).contains(&server.address(0).to_string())
}

#[test]
fn the_admin_is_an_address_a_name_a_url_or_a_variable() {
    let setups = [Setup::new(&["lines+tcp://127.0.0.1:{0}"]), Setup::new(&["lines+tcp://127.0.0.1:{0}"])];
    let _servers = setups.each_ref().map(Setup::start);
    let [first, second] = setups.each_ref().map(Setup::admin);
    let port = first.rsplit_once(':').expect("a port").1;
    for admin in
        [first.clone(), format!("localhost:{port}"), format!("http://{first}/"), format!("http://{first}")]
    {
        let output = status(&["--admin", &admin], Some(&second));
        assert!(shows(&output, &setups[0]), "{admin}: {output:?}");
    }
    let output = status(&[], Some(&second));
    assert!(shows(&output, &setups[1]), "{output:?}");
}

#[test]
fn what_is_no_address_is_told() {
    for (admin, says) in [
        ("localhost", "such as 127.0.0.1:7790"),
        ("127.0.0.1", "HOST:PORT"),
        ("/run/bbq.sock", "HOST:PORT"),
        ("https://127.0.0.1:7790/", "http://127.0.0.1:7790/"),
        ("off", "is off"),
        ("nobody.invalid:7790", "HOST:PORT"),
    ] {
        let output = status(&["--admin", admin], None);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(says), "{admin}: {said}");
    }
}
