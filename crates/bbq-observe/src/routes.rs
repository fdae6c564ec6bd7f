//! What the admin answers, by path. Numbers and messages never come from the page's own files, so a route here is where it is decided
//! who sees them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::body::Body;
use axum::extract::{Path, RawQuery, Request, State};
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HOST, ORIGIN, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use bbq_config::EffectiveKey;
use bbq_intake::is_own_name;
use serde::Serialize;
use tokio::sync::{Notify, watch};

use crate::history::{FOLLOWED_MAX, History, Reading, Subject};
use crate::metrics::Exposition;
use crate::parts::Parts;
use crate::reload_door::ReloadDoor;
use crate::status::Status;
use crate::tail::{TailQuery, Tails, VIEWERS_MAX};
use crate::{metrics, page, sink_door};

/// For probes: the server answers, and it takes messages.
const LIVE: &str = "/livez";
const READY: &str = "/readyz";

/// What the routes show.
#[derive(Clone)]
pub(crate) struct Shown {
    /// Changes with a restart in place.
    pub(crate) parts: watch::Receiver<Arc<Parts>>,
    pub(crate) history: Arc<History>,
    pub(crate) tails: Tails,
    /// Whether the admin asks for a token, and so knows who asks.
    pub(crate) has_tokens: bool,
    pub(crate) reload: ReloadDoor,
}

/// Where a request came from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskedBy(pub(crate) SocketAddr);

/// A connection whose response does not end.
#[derive(Debug, Default)]
pub(crate) struct Endless {
    pub(crate) has_begun: AtomicBool,
    /// The server has given it up.
    pub(crate) ended: Arc<Notify>,
}

/// The configuration in force.
#[derive(Serialize)]
struct Configuration<'a> {
    keys: &'a [EffectiveKey],
}

pub(crate) fn router(shown: Shown) -> Router {
    let router = Router::new()
        .route("/status", get(async |State(shown): State<Shown>| json(&shown.status())))
        .route("/history", get(history))
        .route("/configuration", get(configuration))
        .route("/tail", get(tail))
        .route("/reload", post(reload))
        .route("/sinks/{action}", post(sinks))
        .route(
            "/metrics",
            get(async |State(shown): State<Shown>, headers: HeaderMap| as_metrics(&shown.status(), &headers)),
        )
        .route("/health", get(async |State(shown): State<Shown>| health(&shown.status())))
        .route_layer(from_fn_with_state(shown.clone(), guard));
    let router = with_probes(router);
    page::paths().fold(router, |router, path| router.route(path, get(page_file))).with_state(shown)
}

/// The routes of an address that answers probes alone.
pub(crate) fn probes(shown: Shown) -> Router {
    let elsewhere = "only /livez and /readyz are here; everything else is at the address of admin\n";
    with_probes(Router::new()).fallback(async move || (StatusCode::NOT_FOUND, elsewhere)).with_state(shown)
}

fn with_probes(router: Router<Shown>) -> Router<Shown> {
    router.route(LIVE, get(async || "ok\n")).route(READY, get(readiness))
}

/// Whether a path is served without a token, and by whatever name the admin is asked: it has nothing of this server but whether it
/// serves.
pub(crate) fn is_public(path: &str) -> bool {
    page::has(path) || path == LIVE || path == READY
}

impl Shown {
    pub(crate) fn parts(&self) -> Arc<Parts> {
        Arc::clone(&self.parts.borrow())
    }

    /// Takes a sample for the history, and notices what is wrong when it begins, also if nobody asks.
    pub(crate) fn look(&self) {
        self.parts().changes.look();
        let status = self.status();
        self.history.add(Instant::now(), Reading::of(&status));
    }

    fn status(&self) -> Status {
        let mut status = self.parts().status();
        status.spool.full_in_seconds = self.history.full_in_seconds(&status.spool);
        status
    }
}

/// JSON that no browser keeps or takes for something else.
fn json<T: Serialize>(value: &T) -> Response {
    // What is here always serializes; axum answers 500 otherwise.
    let text =
        serde_json::to_vec(value).map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()));
    let headers = [
        (CONTENT_TYPE, "application/json"),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, text).into_response()
}

async fn page_file(uri: Uri) -> Response {
    page::response(uri.path()).unwrap_or_else(|| StatusCode::NOT_FOUND.into_response())
}

async fn history(State(shown): State<Shown>, RawQuery(query): RawQuery) -> Response {
    let (subject, after) = match history_query(query.as_deref().unwrap_or_default()) {
        Ok(asked) => asked,
        Err(what) => return (StatusCode::BAD_REQUEST, what + "\n").into_response(),
    };
    let Some(answer) = shown.history.after(&subject, after) else {
        let what = format!(
            "no {subject} has a history; /status has the names; at most {FOLLOWED_MAX} listeners and {FOLLOWED_MAX} sinks have one\n"
        );
        return (StatusCode::NOT_FOUND, what).into_response();
    };
    json(&answer)
}

/// What a history is asked of, and behind which sample: `listener=NAME&after=N`.
fn history_query(query: &str) -> Result<(Subject, u64), String> {
    let (mut subject, mut after) = (Subject::Server, 0);
    for (key, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*key {
            "listener" | "sink" if subject != Subject::Server => {
                return Err("use listener=NAME or sink=NAME, one of them".to_owned());
            }
            "listener" => subject = Subject::Listener(value.into_owned()),
            "sink" => subject = Subject::Sink(value.into_owned()),
            "after" => {
                after = value.parse().map_err(|_| format!("after={value}: use the number of a sample"))?
            }
            _ => return Err(format!("{key}: use listener=NAME or sink=NAME, and after=NUMBER")),
        }
    }
    Ok((subject, after))
}

/// Messages as they come, a line of JSON each. It does not end by itself.
async fn tail(
    State(shown): State<Shown>,
    Extension(endless): Extension<Arc<Endless>>,
    RawQuery(query): RawQuery,
) -> Response {
    let query = match TailQuery::of(query.as_deref().unwrap_or_default()) {
        Ok(query) => query,
        Err(what) => return (StatusCode::BAD_REQUEST, what + "\n").into_response(),
    };
    let Some(body) = shown.tails.begin(query, shown.parts.clone(), Arc::clone(&endless.ended)) else {
        let text = format!("{VIEWERS_MAX} viewers follow already; end one of them\n");
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    endless.has_begun.store(true, Ordering::Relaxed);
    let headers = [
        (CONTENT_TYPE, "application/x-ndjson"),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, Body::new(body)).into_response()
}

/// Reads the configuration again. It takes as long as the sinks take to come to a hold.
async fn reload(
    State(shown): State<Shown>,
    Extension(endless): Extension<Arc<Endless>>,
    Extension(AskedBy(peer)): Extension<AskedBy>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    if let Some(refusal) = refusal_of_change(&shown, &headers, peer.ip()) {
        return refusal;
    }
    endless.has_begun.store(true, Ordering::Relaxed);
    shown.reload.ask(query.as_deref().unwrap_or_default()).await
}

/// Tells a sink what an operator wants. It takes as long as the sink takes to come to a hold, and to do it.
async fn sinks(
    State(shown): State<Shown>,
    Extension(endless): Extension<Arc<Endless>>,
    Extension(AskedBy(peer)): Extension<AskedBy>,
    Path(action): Path<String>,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Response {
    if let Some(refusal) = refusal_of_change(&shown, &headers, peer.ip()) {
        return refusal;
    }
    if !matches!(&*action, "pause" | "resume" | "skip" | "resend" | "rename") {
        return (
            StatusCode::NOT_FOUND,
            "use POST /sinks/pause, /sinks/resume, /sinks/skip, /sinks/resend or /sinks/rename\n",
        )
            .into_response();
    }
    endless.has_begun.store(true, Ordering::Relaxed);
    sink_door::answer(&shown.parts(), &action, query.as_deref().unwrap_or_default()).await
}

/// Without tokens, a program on this machine may ask for a change. A page in a browser may not, not even one of this server: a browser
/// that is too old to say from which site a request comes still says so of a POST.
fn refusal_of_change(shown: &Shown, headers: &HeaderMap, peer: IpAddr) -> Option<Response> {
    let is_near = peer.to_canonical().is_loopback();
    if shown.has_tokens || (is_near && !headers.contains_key(ORIGIN)) {
        return None;
    }
    let why = "without admin_token_file, only a program on this machine may change something: use bbq reload or bbq sink there\n";
    Some((StatusCode::FORBIDDEN, why).into_response())
}

/// Stands before every route but the page's own files, which have nothing of this server.
async fn guard(State(shown): State<Shown>, request: Request, next: Next) -> Response {
    match refusal(&shown, request.headers()) {
        Some(refusal) => refusal,
        None => next.run(request).await,
    }
}

/// Without tokens, everybody on this machine may see messages; another web site in somebody's browser may not. It could give its own
/// name the address of the admin, so the name that was asked for must be none that can be given.
fn refusal(shown: &Shown, headers: &HeaderMap) -> Option<Response> {
    if shown.has_tokens {
        return None;
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_from_elsewhere =
        text("sec-fetch-site").is_some_and(|site| !matches!(site, "same-origin" | "none"));
    let host = text(HOST.as_str()).unwrap_or("localhost");
    if !is_from_elsewhere && is_own_name(host) {
        return None;
    }
    let why = "without admin_token_file, this is shown only at an address or localhost, and not to pages of other sites; for another name \
               or site, set admin_token_file\n";
    Some((StatusCode::FORBIDDEN, why).into_response())
}

async fn configuration(State(shown): State<Shown>) -> Response {
    json(&Configuration { keys: &shown.parts().effective() })
}

fn as_metrics(status: &Status, headers: &HeaderMap) -> Response {
    let accept = headers.get(ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let exposition = Exposition::accepted(accept);
    ([(CONTENT_TYPE, exposition.content_type())], metrics::metrics(status, exposition)).into_response()
}

/// 200 if the server takes messages, otherwise 503 and why not. A sink that cannot deliver does not matter: messages are kept for it.
async fn readiness(State(shown): State<Shown>) -> (StatusCode, String) {
    match shown.parts().readiness() {
        Ok(()) => (StatusCode::OK, "ok\n".to_owned()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
    }
}

/// 200 if everything works as configured, otherwise 503 and the problems.
fn health(status: &Status) -> (StatusCode, String) {
    let (is_well, text) = status.health();
    (if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE }, text)
}
