//! `bbq status`: asks the admin, once or until the server is ready.

use std::io::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use bbq_server::status::Status;
use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use crate::Outcome;
use crate::arguments::StatusArguments;
use crate::status_table;

/// A server that is asked and does not answer in this time is stuck.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a server that is not there yet is asked again.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

pub(crate) fn run(arguments: &StatusArguments) -> anyhow::Result<Outcome> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let answer = match arguments.wait {
        None => runtime.block_on(ask(arguments.admin))?,
        Some(seconds) if seconds.is_finite() && (0.0..=1e9).contains(&seconds) => {
            let patience = Duration::from_secs_f64(seconds);
            let asked = runtime.block_on(async { timeout(patience, ask_until_ready(arguments.admin)).await });
            match asked {
                Ok(answer) => answer,
                Err(_) => bail!("no server is ready at {} after {seconds} s", arguments.admin),
            }
        }
        Some(seconds) => {
            return Ok(Outcome::Misused(anyhow::anyhow!(
                "--wait {seconds}: write a number of seconds from 0 on"
            )));
        }
    };
    let mut out = std::io::stdout().lock();
    if arguments.json {
        out.write_all(&answer)?;
        writeln!(out)?;
    } else {
        let status: Status =
            serde_json::from_slice(&answer).context("the server's answer is not a status")?;
        status_table::write(&status, &mut out)?;
    }
    Ok(Outcome::Done)
}

async fn ask_until_ready(admin: SocketAddr) -> Bytes {
    loop {
        if let Ok(answer) = ask(admin).await
            && serde_json::from_slice::<Status>(&answer).is_ok_and(|status| status.ready)
        {
            return answer;
        }
        sleep(RETRY_INTERVAL).await;
    }
}

/// One GET of `/status`.
async fn ask(admin: SocketAddr) -> anyhow::Result<Bytes> {
    let asked = timeout(ANSWER_TIMEOUT, async {
        let stream = TcpStream::connect(admin)
            .await
            .with_context(|| format!("no server answers at {admin}; is it running, with this --admin?"))?;
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
        // It ends with the answer; what it has to say then the request says better.
        let connection = tokio::spawn(connection);
        let request = Request::get("/status").header("host", admin.to_string()).body(Empty::<Bytes>::new())?;
        let response = sender.send_request(request).await?;
        let code = response.status();
        let body = response.into_body().collect().await?.to_bytes();
        connection.abort();
        if !code.is_success() {
            bail!("{admin} answers {code}");
        }
        Ok(body)
    });
    asked.await.with_context(|| format!("{admin} does not answer"))?
}
