//! Asks an admin for its status, or to change something. If another program has the address, the error names it.

use std::net::SocketAddr;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail};
use bbq_listen::{Address, Holder};
use bbq_server::config::{ADMIN_DEFAULT, Secret};
use bbq_server::status::Status;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// A server that does not answer within this time is stuck.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Sinks have 5 s to come to a commit, and as long to open their outputs, twice if the old configuration is taken again. Disks take more.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);
/// An admin answers within milliseconds. After this time the user is told that it is slow.
const PATIENCE: Duration = Duration::from_secs(1);
/// The status of 256 listeners with 256 sockets each is 40 MB; another program may send without end.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// Gets the JSON of `/status`. Calls `slow` if the answer takes long.
pub(crate) async fn ask(
    admin: SocketAddr,
    token: Option<&Secret>,
    slow: impl FnOnce(),
) -> anyhow::Result<Bytes> {
    let mut answer = pin!(timeout(ANSWER_TIMEOUT, status_of(admin, token)));
    if let Ok(answer) = timeout(PATIENCE, &mut answer).await {
        return answer?;
    }
    if takes_connections(admin).await {
        // A server that was stuck may just have recovered.
        if let Ok(answer) = timeout(PATIENCE, &mut answer).await {
            return answer?;
        }
        return Err(no_admin(admin, "it answers nothing, so it may be a listener for messages"));
    }
    slow();
    answer.await.unwrap_or_else(|_| {
        let (who, waited) = (named(admin), ANSWER_TIMEOUT.as_secs());
        Err(anyhow!(
            "{who} has not answered for {waited} s: it is stuck, or it is not the admin of a bbq server. {}",
            remedy()
        ))
    })
}

/// Asks for a change. Returns what was done, or why the server refused. `otherwise` is how to make it without the admin.
pub(crate) async fn ask_to_change(
    admin: SocketAddr,
    token: Option<&Secret>,
    path: &str,
    otherwise: &str,
) -> anyhow::Result<Result<String, String>> {
    let answer = timeout(CHANGE_TIMEOUT, answer_of(admin, token, Method::POST, path)).await;
    let Ok(answer) = answer else {
        bail!(
            "{} has not answered for {} s; the server's log says whether it has done it. {}",
            named(admin),
            CHANGE_TIMEOUT.as_secs(),
            remedy()
        );
    };
    let (code, body) = answer?;
    let text = String::from_utf8_lossy(&body).trim_end().to_owned();
    match code {
        StatusCode::OK => Ok(Ok(text)),
        // An older server does not know the path, and says nothing.
        StatusCode::NOT_FOUND if text.is_empty() => {
            bail!("{} does not support POST {path}, because its version is older; {otherwise}", named(admin))
        }
        StatusCode::NOT_FOUND
        | StatusCode::BAD_REQUEST
        | StatusCode::CONFLICT
        | StatusCode::FORBIDDEN
        | StatusCode::INTERNAL_SERVER_ERROR
        | StatusCode::SERVICE_UNAVAILABLE => Ok(Err(text)),
        _ => Err(no_admin(admin, &format!("it answers POST {path} with {code}"))),
    }
}

async fn status_of(admin: SocketAddr, token: Option<&Secret>) -> anyhow::Result<Bytes> {
    let (code, body) = answer_of(admin, token, Method::GET, "/status").await?;
    if !code.is_success() {
        return Err(no_admin(admin, &format!("it answers GET /status with {code}")));
    }
    let is_status = serde_json::from_slice::<serde_json::Value>(&body)
        .is_ok_and(|answer| answer.get("ready").is_some() && answer.get("ledger").is_some());
    if is_status {
        Ok(body)
    } else {
        Err(no_admin(admin, "its answer to GET /status is not a status of bbq"))
    }
}

async fn answer_of(
    admin: SocketAddr,
    token: Option<&Secret>,
    method: Method,
    path: &str,
) -> anyhow::Result<(StatusCode, Bytes)> {
    let stream = TcpStream::connect(admin)
        .await
        .map_err(|error| anyhow!("{}", nobody_at(admin, &error.to_string())))?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    // The task ends with the answer. `send_request` returns the task's errors.
    let connection = tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(path).header("host", admin.to_string());
    if let Some(token) = token {
        // The error of a token that fits no header does not show it.
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.expose()))?;
        value.set_sensitive(true);
        request = request.header(AUTHORIZATION, value);
    }
    let request = request.body(Empty::<Bytes>::new())?;
    let response = sender.send_request(request).await.map_err(|error| {
        let what = if error.is_parse() {
            "it does not speak HTTP"
        } else {
            "it ends the connection without an answer"
        };
        no_admin(admin, what)
    })?;
    let code = response.status();
    if code == StatusCode::UNAUTHORIZED {
        let which = if token.is_some() { "another token" } else { "a token" };
        bail!(
            "{} asks for {which}: use --token-file FILE or BBQ_TOKEN with one of the server's admin_token_file",
            named(admin)
        );
    }
    let Ok(body) = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await else {
        bail!("the answer of {admin} was cut off");
    };
    connection.abort();
    Ok((code, body.to_bytes()))
}

/// What an answer of [`ask`] says.
pub(crate) fn status_in(admin: SocketAddr, answer: &[u8]) -> anyhow::Result<Status> {
    let mut status: Status = serde_json::from_slice(answer)
        .with_context(|| format!("{admin} is a bbq server of another version; --json shows its answer"))?;
    // The first servers gave no names.
    let listeners = status.listeners.iter_mut().map(|listener| (&mut listener.name, &listener.spec));
    let sinks = status.sinks.iter_mut().map(|sink| (&mut sink.name, &sink.spec));
    for (name, spec) in listeners.chain(sinks).filter(|(name, _)| name.is_empty()) {
        name.clone_from(spec);
    }
    Ok(status)
}

/// Whether the program at an address accepts a connection and closes it when the client does: such a program is not stuck.
async fn takes_connections(address: SocketAddr) -> bool {
    let ended = timeout(PATIENCE, async {
        let mut stream = TcpStream::connect(address).await?;
        stream.shutdown().await?;
        stream.read(&mut [0]).await
    });
    matches!(ended.await, Ok(Ok(_)))
}

fn no_admin(admin: SocketAddr, what: &str) -> anyhow::Error {
    anyhow!("{} is not the admin of a bbq server: {what}. {}", named(admin), remedy())
}

/// The address, and the program that has it, if the system shows it.
fn named(admin: SocketAddr) -> String {
    // The address of another machine may have the same port.
    match Holder::of(&Address::Tcp(admin)).filter(|_| admin.ip().is_loopback()) {
        Some(holder) => format!("{admin}, where {holder} listens,"),
        None => admin.to_string(),
    }
}

/// That no server is there, and what to do.
pub(crate) fn nobody_at(admin: SocketAddr, why: &str) -> String {
    // The number behind it helps nobody who reads this.
    let why = why.split(" (os error").next().unwrap_or(why);
    format!(
        "no server listens at {admin} ({why}); start one with `bbq serve`, or name another with --admin HOST:PORT, \
         which its log shows as admin="
    )
}

fn remedy() -> String {
    format!(
        "Use --admin with the address in the first lines of the server's log (`ready ... admin=`): its own --admin, or `admin` in \
         its configuration; {ADMIN_DEFAULT} unless set"
    )
}
