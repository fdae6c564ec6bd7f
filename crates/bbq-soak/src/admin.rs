//! Questions to the server's admin.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// A server under SIGSTOP answers late.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Asks for a page; returns the code and the text.
pub(crate) fn ask(admin: SocketAddr, page: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect_timeout(&admin, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.write_all(format!("GET {page} HTTP/1.1\r\nHost: soak\r\nConnection: close\r\n\r\n").as_bytes())?;
    let mut text = String::new();
    stream.read_to_string(&mut text)?;
    let (head, body) = text.split_once("\r\n\r\n").context("no HTTP")?;
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok()).context("no HTTP status")?;
    Ok((code, body.to_owned()))
}

/// `/status`.
pub(crate) fn status(admin: SocketAddr) -> Result<Value> {
    let (code, body) = ask(admin, "/status")?;
    if code != 200 {
        bail!("/status is {code}: {body}");
    }
    Ok(serde_json::from_str(&body)?)
}

/// A sum of the ledger: a number, or an object of numbers.
pub(crate) fn sum(value: &Value) -> u64 {
    match value {
        Value::Object(fields) => fields.values().filter_map(Value::as_u64).sum(),
        other => other.as_u64().unwrap_or(0),
    }
}

/// Whether nothing is queued for any sink, and the ledger balances.
pub(crate) fn is_quiet(status: &Value) -> Result<(), String> {
    let ledger = &status["ledger"];
    let [received, delivered, queued, dropped] =
        ["received", "delivered", "queued", "dropped"].map(|field| sum(&ledger[field]));
    let sinks = status["sinks"].as_array().map(Vec::as_slice).unwrap_or_default();
    if queued > 0 || sinks.iter().any(|sink| sum(&sink["queued"]) > 0) {
        return Err(format!("{queued} messages are queued"));
    }
    if received != delivered + dropped {
        return Err(format!("the ledger does not balance: {ledger}"));
    }
    Ok(())
}
