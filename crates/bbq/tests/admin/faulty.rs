//! Servers with faults.

use crate::support::mounts::mount_small;
use crate::support::{Setup, free_ports};

/// A server with a sink that cannot deliver, and a listener that drops what comes while its only worker is held.
pub(super) fn setup() -> Setup {
    let mut setup = Setup::new(&[
        "lines+tcp://127.0.0.1:{0}?name=app",
        "syslog+udp://127.0.0.1:{1}?name=routers&receive_buffer_bytes=4096",
    ])
    .with(&["--workers", "1"]);
    // Nobody listens there.
    let nowhere = free_ports(1)[0];
    setup.set_sinks(&[&format!("http://127.0.0.1:{nowhere}/?name=dead"), "file:{dir}/out.log?name=file"]);
    setup
}

/// A server whose data directory is a disk of a few segments. For a test in its own mount namespace.
pub(super) fn on_small_disk() -> Setup {
    const DISK_KIB: u32 = 2 * 1024;
    let setup = Setup::new(&["lines+tcp://127.0.0.1:{0}?name=app"])
        .with(&["--workers", "1"])
        .config("[spool]\nsegment_bytes = \"256KiB\"\nbytes_max = \"1GiB\"\n");
    mount_small(&setup.data(), DISK_KIB);
    setup
}
