//! A server with a sink that cannot deliver, and a listener that drops what comes while its only worker is held.

use crate::support::{Setup, free_ports};

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
