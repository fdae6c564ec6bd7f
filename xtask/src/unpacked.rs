//! Packages that tests need and that are only unpacked, into `senders` of the target directory. rsyslog and syslog-ng cannot be installed
//! together, as each wants to be the system's logger; services of the journal and of Prometheus are not wanted on a machine that only
//! runs tests.
//!
//! It needs no root, and installs nothing.

use crate::{needs, step};

/// rsyslog with what Debian 12 does not have already, what writes files of the journal, and Prometheus.
const PACKAGES: [&str; 8] = [
    "rsyslog",
    "rsyslog-gnutls",
    "libestr0",
    "libfastjson4",
    "liblognorm5",
    "systemd-journal-remote",
    "libmicrohttpd12",
    "prometheus",
];
/// Has the names of the packages when everything is unpacked.
const COMPLETE: &str = "complete";
/// With the directory and the packages. apt-get downloads as another user unless it is told not to.
const UNPACK: &str = "mkdir -p \"$0\" && cd \"$0\" && apt-get -o APT::Sandbox::User=root download \"$@\" && \
                      for package in *.deb; do dpkg -x \"$package\" . || exit 1; done && rm -- *.deb && echo \"$@\" > complete";

/// Unpacks them, unless they are there.
pub(crate) fn provide() -> Result<(), String> {
    let directory = step::target_directory().join("senders");
    let packages = PACKAGES.join(" ");
    if std::fs::read_to_string(directory.join(COMPLETE)).is_ok_and(|there| there.trim_end() == packages) {
        return Ok(());
    }
    if needs::is_root() {
        step::run(&[], "apt-get", &["update"])?;
    }
    let directory = directory.display().to_string();
    step::run(&[], "sh", &[&["-c", UNPACK, &directory][..], &PACKAGES].concat()).map_err(|problem| {
        format!("{problem}; the tests need {} of Debian in {directory}", PACKAGES.join(", "))
    })
}
