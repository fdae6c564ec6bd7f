//! One GET to an admin on loopback.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::Context;

/// An admin answers at once, or the machine is overloaded beyond measuring.
const WITHIN: Duration = Duration::from_secs(5);

/// The body of the answer, which must be a 200.
pub(crate) fn get(address: SocketAddr, target: &str) -> anyhow::Result<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, WITHIN)?;
    stream.set_read_timeout(Some(WITHIN))?;
    write!(stream, "GET {target} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?; // tries again when interrupted
    let end = memchr::memmem::find(&answer, b"\r\n\r\n").context("the answer has no end of its headers")?;
    let head = String::from_utf8_lossy(&answer[..end]);
    let status = head.lines().next().unwrap_or_default();
    anyhow::ensure!(status.split(' ').nth(1) == Some("200"), "{target} answered {status}");
    Ok(answer.split_off(end + 4))
}
