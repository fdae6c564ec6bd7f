//! Requests to the server's admin address.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// Long enough for a server that SIGSTOP has stopped for a while.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Gets a page. Returns the status code and the text.
pub(crate) fn ask(admin: SocketAddr, page: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&admin, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream
        .write_all(format!("GET {page} HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").context("the response is not HTTP")?;
    let code = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .context("the response has no HTTP status")?;
    Ok((code, body.to_owned()))
}

/// `/status`.
pub(crate) fn status(admin: SocketAddr) -> Result<Value> {
    let (code, body) = ask(admin, "/status")?;
    ensure!(code == 200, "/status is {code}: {body}");
    Ok(serde_json::from_str(&body)?)
}

/// A sum of the ledger: a number, or an object of numbers.
pub(crate) fn sum(value: &Value) -> u64 {
    match value {
        Value::Object(fields) => fields.values().filter_map(Value::as_u64).sum(),
        other => other.as_u64().unwrap_or(0),
    }
}

/// Checks that nothing is queued for any sink, and that the ledger balances.
pub(crate) fn check_quiet(status: &Value) -> Result<()> {
    let ledger = &status["ledger"];
    let [received, delivered, queued, dropped, filtered] =
        ["received", "delivered", "queued", "dropped", "filtered"].map(|field| sum(&ledger[field]));
    let mut sinks = status["sinks"].as_array().into_iter().flatten();
    ensure!(queued == 0 && sinks.all(|sink| sum(&sink["queued"]) == 0), "{queued} messages are queued");
    ensure!(received == delivered + dropped + filtered, "the ledger does not balance: {ledger}");
    Ok(())
}
