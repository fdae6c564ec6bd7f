//! A connection to a NATS server, and requests to its JetStream API.
//!
//! async-nats would connect again by itself, and send what it still has. Here each connection is used once: after it ends, whoever
//! writes must first ask how far the stream is.

use std::fmt::Write as _;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, RequestErrorKind, ServerAddr, Subscriber};
use bbq_sink::{Resolver, with_port};
use hyper::body::Bytes;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::forbidden;
use super::settings::NatsSettings;

/// A server that does not accept a connection and greet within this time is down.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that does not respond within this time to a request, or to what was published, is down.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// The same in a cluster. What a stream's leader was given before it was killed stays without a response, and the cluster has another
/// leader within seconds. To ask again too early costs little: what was published and comes late is seen in the progress.
const CLUSTER_TIMEOUT: Duration = Duration::from_secs(5);
/// What the server said before a response is passed on by another task of this thread; that takes no longer.
const TELL_PATIENCE: Duration = Duration::from_millis(100);
/// A server that refuses subjects responds; if it does not within this time, what it refuses besides is found out later.
const BARRIER_PATIENCE: Duration = Duration::from_secs(1);
/// Most subjects that are refused over a connection: more than messages are in a batch.
const REFUSED_MAX: usize = 1024;
/// `err_code` of a cluster without a leader, or of a stream without one.
const NOT_AVAILABLE: u64 = 10008;
/// A quiet connection is tried as often: one that is dead is noticed after three times.
const PING_INTERVAL: Duration = Duration::from_secs(10);
/// Publications that async-nats holds before it makes the caller wait: a quarter of a batch.
const QUEUED_MAX: usize = 256;
/// Acknowledgements that wait to be read: more than there can be publications that have one.
const RESPONSES_MAX: usize = 2048;

/// See the module.
pub(super) struct Server {
    pub(super) client: Client,
    /// The replies to what is published.
    pub(super) replies: Subscriber,
    /// What is in front of the number in the subject of a reply.
    pub(super) inbox: String,
    /// Why the connection is of no use any more.
    pub(super) ended: watch::Receiver<Option<String>>,
    /// How long a response may take.
    pub(super) patience: Duration,
    is_in_cluster: bool,
    /// The subjects that the server says the user may not publish to; at most [`REFUSED_MAX`].
    refused: Arc<Mutex<Vec<String>>>,
}

/// Why a request failed.
pub(super) enum RequestError {
    /// The server responds with an error: its `err_code`, and its text.
    Refused(u64, String),
    Failed(io::Error),
}

impl From<RequestError> for io::Error {
    fn from(error: RequestError) -> io::Error {
        match error {
            RequestError::Refused(_, text) => io::Error::other(text),
            RequestError::Failed(error) => error,
        }
    }
}

impl Server {
    pub(super) async fn connect(target: &NatsSettings, resolver: &Resolver) -> io::Result<Server> {
        let (end, ended) = watch::channel(None);
        let refused: Arc<Mutex<Vec<String>>> = Arc::default();
        let told = Arc::clone(&refused);
        let on_event = move |event: Event| {
            note_refused(&told, &event);
            let why = match event {
                Event::Disconnected | Event::Closed => Some("the connection ended".to_owned()),
                Event::ServerError(error) => {
                    Some(format!("the server says: {error}{}", remedy(&error.to_string())))
                }
                _ => None,
            };
            if let Some(why) = why {
                // The first reason is the one to tell.
                end.send_if_modified(|end| end.replace(why).is_none());
            }
            std::future::ready(())
        };
        let addresses = addresses(target, resolver).await?;
        let options = target.credentials.apply(ConnectOptions::new())?;
        let mut options = options
            .name("bbq")
            .connection_timeout(CONNECT_TIMEOUT)
            .request_timeout(Some(RESPONSE_TIMEOUT))
            .ping_interval(PING_INTERVAL)
            .client_capacity(QUEUED_MAX)
            .subscription_capacity(RESPONSES_MAX)
            .max_reconnects(addresses.len())
            .ignore_discovered_servers()
            // Subjects are checked when the SPEC is read, and fields when they are put in.
            .skip_subject_validation(true)
            .event_callback(on_event);
        if let Some(tls) = &target.tls {
            let config = tls.read().map_err(io::Error::other)?;
            options = options.require_tls(true).tls_client_config(config);
        }
        let client = options.connect(addresses).await.map_err(|error| {
            let why = with_sources(&error);
            let remedy = match error.kind() {
                ConnectErrorKind::AuthorizationViolation => remedy(AUTHORIZATION),
                ConnectErrorKind::Tls if target.tls.is_none() => {
                    "; the server requires TLS: set tls=on, and tls_ca to the certificate of its CA"
                }
                _ => "",
            };
            io::Error::other(format!("{why}{remedy}"))
        })?;
        let info = client.server_info();
        if !info.headers {
            return Err(io::Error::other(
                "the server does not support headers; bbq needs nats-server 2.2 or newer",
            ));
        }
        if client.is_server_compatible(2, 12, 0) && !client.is_server_compatible(2, 12, 1) {
            // It looks for the place of the last progress under another subject.
            return Err(io::Error::other(
                "nats-server 2.12.0 refuses every batch behind the first one; upgrade it to 2.12.1 or newer",
            ));
        }
        let inbox = client.new_inbox();
        let replies = client.subscribe(format!("{inbox}.*")).await.map_err(io::Error::other)?;
        let is_in_cluster = info.cluster.is_some();
        let patience = if is_in_cluster { CLUSTER_TIMEOUT } else { RESPONSE_TIMEOUT };
        Ok(Server { client, replies, inbox, ended, patience, is_in_cluster, refused })
    }

    /// The subjects of what was published that the server has refused, once the connection is of no use any more.
    pub(super) async fn refused_subjects(&mut self) -> Vec<String> {
        let _either = timeout(TELL_PATIENCE, why_ended(&mut self.ended)).await;
        let told = |refused: &Mutex<Vec<String>>| {
            std::mem::take(&mut *refused.lock().unwrap_or_else(PoisonError::into_inner))
        };
        let mut subjects = told(&self.refused);
        if !subjects.is_empty() {
            // It responds in order: what it says of the rest comes first.
            let request = self.client.request("$JS.API.INFO", Bytes::new());
            let _response = timeout(BARRIER_PATIENCE, request).await;
            subjects.append(&mut told(&self.refused));
        }
        subjects
    }

    /// Calls the JetStream API.
    pub(super) async fn request(&mut self, name: &str, body: &Value) -> Result<Value, RequestError> {
        let subject = format!("$JS.API.{name}");
        let body = body.to_string().into();
        let Server { client, ended, patience, is_in_cluster, .. } = self;
        let majority = if *is_in_cluster { MAJORITY } else { "" };
        let late = || {
            format!(
                "the server did not respond to {name} within {} s{majority}; check that the user may publish to $JS.API.> and subscribe \
                 to _INBOX.>",
                patience.as_secs()
            )
        };
        let response = tokio::select! {
            response = client.request(subject, body) => response.map_err(|error| match error.kind() {
                RequestErrorKind::NoResponders => format!(
                    "the server has no JetStream, or its account has none{majority}; start the server with --jetstream, or enable \
                     JetStream for the account"
                ),
                RequestErrorKind::TimedOut => late(),
                _ => with_sources(&error),
            }),
            () = sleep(*patience) => Err(late()),
            why = why_ended(ended) => return Err(RequestError::Failed(why)),
        };
        let response = response.map_err(|why| RequestError::Failed(io::Error::other(why)))?;
        let value: Value = serde_json::from_slice(&response.payload)
            .map_err(|error| RequestError::Failed(io::Error::other(format!("{name}: {error}"))))?;
        match api_error(&value) {
            Some((code, text)) => Err(RequestError::Refused(code, text)),
            None => Ok(value),
        }
    }
}

/// Notes the subject that the server refuses.
fn note_refused(refused: &Mutex<Vec<String>>, event: &Event) {
    if let Event::ServerError(error) = event
        && let Some(subject) = forbidden::named_in(&error.to_string())
    {
        let mut refused = refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.len() < REFUSED_MAX {
            refused.push(subject);
        }
    }
}

/// Waits until the connection is of no use any more, and returns why.
pub(super) async fn why_ended(ended: &mut watch::Receiver<Option<String>>) -> io::Error {
    let why = ended.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
    io::Error::other(why.unwrap_or_else(|| "the connection ended".to_owned()))
}

/// What a cluster needs to respond.
const MAJORITY: &str = "; check that most servers of the cluster are running";

/// What a server says when it refuses the credentials.
const AUTHORIZATION: &str = "authorization violation";

fn remedy(text: &str) -> &'static str {
    let text = text.to_lowercase();
    if text.contains(AUTHORIZATION) {
        "; check user and password_file, token_file, nkey_file or creds"
    } else if text.contains("permissions violation") {
        "; the user needs permission to publish to the subject of the messages, to that of the progress, and to $JS.API.>, and to \
         subscribe to _INBOX.>"
    } else {
        ""
    }
}

/// The error in a response of JetStream: its code, and its text.
pub(super) fn api_error(response: &Value) -> Option<(u64, String)> {
    let error = response.get("error")?;
    let code = error.get("err_code").and_then(Value::as_u64).unwrap_or_default();
    let text = error.get("description").and_then(Value::as_str).unwrap_or("an error without a description");
    let remedy = if code == NOT_AVAILABLE { MAJORITY } else { "" };
    Some((code, format!("{text} ({code}){remedy}")))
}

/// The addresses to try. For TLS they must be names, as certificates have names; async-nats resolves these itself.
async fn addresses(target: &NatsSettings, resolver: &Resolver) -> io::Result<Vec<ServerAddr>> {
    let mut addresses = Vec::new();
    let mut failed = None;
    for (host, port) in &target.servers {
        let url = |host: &str| format!("nats://{}", with_port(host, *port));
        if target.tls.is_some() {
            addresses.push(url(host).parse().map_err(io::Error::other)?);
            continue;
        }
        match resolver.resolve(host).await {
            Ok(found) => {
                for address in found {
                    addresses.push(url(&address.ip().to_string()).parse().map_err(io::Error::other)?);
                }
            }
            Err(error) => failed = Some(io::Error::new(error.kind(), format!("{host}: {error}"))),
        }
    }
    match (addresses.is_empty(), failed) {
        (false, _) => Ok(addresses),
        (true, Some(error)) => Err(error),
        (true, None) => Err(io::Error::other("its name has no address")),
    }
}

fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let next = error.to_string();
        if !text.contains(&next) {
            // Writing to a String cannot fail.
            let _infallible = write!(text, ": {next}");
        }
        source = error.source();
    }
    text
}
