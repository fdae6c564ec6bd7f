//! A separate network for a test, in which it may change settings of the kernel.

use std::process::Command;

/// Set when the test runs for the second time, in its namespace.
const VARIABLE: &str = "BBQ_TEST_NAMESPACE";

/// Runs the calling test, which has this name, again in new user and network namespaces, once for each of these settings (`sysctl`
/// arguments), and runs `body` there. Any user may do that, unless the system forbids it; then the test fails.
pub fn in_own_network(test: &str, settings: &[&str], body: impl FnOnce()) {
    if std::env::var_os(VARIABLE).is_some() {
        return body();
    }
    let this = std::env::current_exe().expect("this program");
    for setting in settings {
        let script = "ip link set lo up && sysctl -qw \"$1\" && shift && exec \"$@\"";
        let output = Command::new("unshare")
            .args(["--user", "--net", "--map-root-user", "sh", "-c", script, "sh", setting])
            .arg(&this)
            .args([test, "--exact", "--nocapture"])
            .env(VARIABLE, "yes")
            .output()
            .expect("unshare runs");
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && text.contains("1 passed"),
            "{setting}: {text}{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}
