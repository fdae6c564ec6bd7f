//! The admin's HTTP server; `routes` has what it answers. On a thread of its own, so that it responds while control waits for a sink, a
//! reload or a stop. The same thread takes the samples of `history`.
//!
//! A connection is for one request. Its head has to come soon, and its response has to be read soon. When there are too many
//! connections, the oldest one without a request is closed for the next: a client that opens many and sends nothing delays no
//! other client, and takes no descriptor that others need.
//!
//! Probes may have an address of their own, which answers nothing else. It has connections of its own: other machines may reach it, and
//! nobody there can keep an operator away from the admin.

use std::collections::VecDeque;
use std::io;
use std::net::TcpListener as AdminListener;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use axum::http::StatusCode;
use axum::http::header::WWW_AUTHENTICATE;
use axum::response::{IntoResponse as _, Response};
use bbq_intake::{Denied, ServedTokens, TokenFile, bearer};
use bbq_spec::RateLimitedLog;
use bbq_spec::threads::{ThreadError, spawn};
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::MissedTickBehavior;
use tracing::{error, warn};

use crate::history::{self, History};
use crate::parts::Parts;
use crate::reload_door::{ReloadDoor, ReloadRequests};
use crate::routes::{self, AskedBy, Endless, Shown};
use crate::tail::{TailThread, Tails};

/// Connections at the same time. Many times the number of probes of a server, and within the reserved descriptors. A viewer of the tail has one, too.
const CONNECTIONS_MAX: usize = 32;
/// The same at the address for probes: a probe is one short request every few seconds.
pub const PROBE_CONNECTIONS_MAX: usize = 16;
/// How long the head of a request may take: a client sends it at once.
const HEAD_PATIENCE: Duration = Duration::from_secs(2);
/// How long a connection may take as a whole, but for a tail and a reload: a status is some hundred KiB at most.
const CONNECTION_PATIENCE: Duration = Duration::from_secs(10);
/// How long clients that have sent a request may take to read the response when the admin pauses or ends.
const END_PATIENCE: Duration = Duration::from_secs(1);
/// How long a wrong token waits for its answer: who guesses has a few tries a second, and a person notices nothing.
const DENIED_PAUSE: Duration = Duration::from_millis(500);
/// Pause before accepting again when the system has no descriptor or memory left.
const STARVED_PAUSE: Duration = Duration::from_millis(50);

type Now = watch::Receiver<Arc<Parts>>;

/// What control asks of the thread.
#[derive(Clone)]
enum Order {
    /// Leave the accept queue alone.
    Wait,
    Serve(Now),
    End,
}

/// Where the admin listens.
#[derive(Clone, Copy, Debug)]
pub struct AdminSockets<'a> {
    /// Everything is answered here.
    pub all: Option<&'a AdminListener>,
    /// Probes are answered here, without a token, and nothing else.
    pub probes: Option<&'a AdminListener>,
}

/// A socket, and what is answered there.
struct Entrance {
    listener: TcpListener,
    /// Who may ask; `None` is everybody.
    tokens: Option<Arc<ServedTokens>>,
    router: fn(Shown) -> Router,
    connections_max: usize,
}

/// The admin's thread.
pub struct Admin {
    /// Who may ask; `None` is everybody.
    tokens: Option<Arc<ServedTokens>>,
    order: watch::Sender<Order>,
    /// Whether it accepts.
    serves: watch::Receiver<bool>,
    thread: JoinHandle<()>,
    tail: TailThread,
    /// Requests to read the configuration again, until control has taken this.
    reloads: Option<ReloadRequests>,
}

impl Admin {
    /// Makes the thread, which accepts nobody yet, and that of the tail. `None` if there is no socket.
    ///
    /// # Errors
    /// If a thread or the event loop cannot be made.
    pub fn start(
        sockets: AdminSockets<'_>,
        tokens: Option<Arc<ServedTokens>>,
    ) -> Result<Option<Admin>, ThreadError> {
        let failed = |source| ThreadError { name: "admin".to_owned(), source };
        let copied = |listener: Option<&AdminListener>| listener.map(AdminListener::try_clone).transpose();
        let (all, probes) = (copied(sockets.all).map_err(failed)?, copied(sockets.probes).map_err(failed)?);
        if all.is_none() && probes.is_none() {
            return Ok(None);
        }
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (order, orders) = watch::channel(Order::Wait);
        let (tell_serves, serves) = watch::channel(false);
        let asked_for = tokens.clone();
        let (tail, tails) = TailThread::start()?;
        let (door, reloads) = ReloadDoor::new();
        let thread = spawn("admin".to_owned(), move || {
            let served = async {
                let entrances = entrances(all, asked_for, probes)?;
                work(&entrances, (tails, door), orders, &tell_serves).await;
                io::Result::Ok(())
            };
            if let Err(error) = runtime.block_on(served) {
                error!(%error, "the admin failed; bbq status, /health and the page do not work until a restart");
            }
        })?;
        Ok(Some(Admin { tokens, order, serves, thread, tail, reloads: Some(reloads) }))
    }

    /// The requests to read the configuration again. `None` if they were taken before.
    pub fn take_reloads(&mut self) -> Option<ReloadRequests> {
        self.reloads.take()
    }

    /// Takes the tokens that were read with the configuration. `true` if they have changed.
    pub fn replace_tokens(&self, file: &TokenFile) -> bool {
        let tokens = self.tokens.as_ref().filter(|tokens| tokens.is_of(&file.path));
        let have_changed = tokens.is_some_and(|tokens| tokens.replace(file.tokens.clone(), file.stamp));
        if have_changed {
            self.tail.end_viewers();
        }
        have_changed
    }

    /// Serves requests; each response shows what `parts` holds at the time.
    pub fn serve(&self, parts: &watch::Receiver<Arc<Parts>>) {
        self.order.send_replace(Order::Serve(parts.clone()));
    }

    /// Stops accepting. Clients that have sent a request get their response, for a moment.
    pub async fn pause(&mut self) {
        self.order.send_replace(Order::Wait);
        // An error means that the thread is gone, and with it its accepting.
        let _paused = self.serves.wait_for(|serves| !serves).await;
    }

    /// Ends the thread, and frees the listener.
    pub fn end(self) {
        self.order.send_replace(Order::End);
        if self.thread.join().is_err() {
            error!("the admin's thread panicked");
        }
        self.tail.join();
    }
}

fn entrances(
    all: Option<AdminListener>,
    tokens: Option<Arc<ServedTokens>>,
    probes: Option<AdminListener>,
) -> io::Result<Vec<Arc<Entrance>>> {
    let mut entrances = Vec::new();
    if let Some(listener) = all {
        let listener = TcpListener::from_std(listener)?;
        let (router, connections_max) = (routes::router as fn(Shown) -> Router, CONNECTIONS_MAX);
        entrances.push(Arc::new(Entrance { listener, tokens, router, connections_max }));
    }
    if let Some(listener) = probes {
        let listener = TcpListener::from_std(listener)?;
        let (router, connections_max) = (routes::probes as fn(Shown) -> Router, PROBE_CONNECTIONS_MAX);
        entrances.push(Arc::new(Entrance { listener, tokens: None, router, connections_max }));
    }
    Ok(entrances)
}

async fn work(
    entrances: &[Arc<Entrance>],
    (tails, reload): (Tails, ReloadDoor),
    mut orders: watch::Receiver<Order>,
    tell_serves: &watch::Sender<bool>,
) {
    // The tokens are those of the entrance to everything; the one for probes has no route that asks.
    let has_tokens = entrances.iter().any(|entrance| entrance.tokens.is_some());
    let history = Arc::new(History::default());
    loop {
        let order = orders.borrow_and_update().clone();
        match order {
            Order::End => return,
            Order::Wait => {}
            Order::Serve(parts) => {
                tell_serves.send_replace(true);
                let (history, tails) = (Arc::clone(&history), tails.clone());
                let shown = Shown { parts, history, tails, has_tokens, reload: reload.clone() };
                serve(entrances, &shown, &orders).await;
                tell_serves.send_replace(false);
                continue;
            }
        }
        if orders.changed().await.is_err() {
            return;
        }
    }
}

/// Serves at every entrance until there is another order.
async fn serve(entrances: &[Arc<Entrance>], shown: &Shown, orders: &watch::Receiver<Order>) {
    let mut tick = tokio::time::interval(history::INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick, which is at once: whoever asks first finds each listener and sink in the history.
    tick.tick().await;
    shown.look();
    let mut served = JoinSet::new();
    for entrance in entrances {
        served.spawn(Arc::clone(entrance).serve(shown.clone(), orders.clone()));
    }
    loop {
        tokio::select! {
            ended = served.join_next() => if ended.is_none() {
                break;
            },
            _ = tick.tick() => shown.look(),
        }
    }
}

impl Entrance {
    /// Serves until there is another order, then finishes the requests that have come.
    async fn serve(self: Arc<Self>, shown: Shown, mut orders: watch::Receiver<Order>) {
        let router = (self.router)(shown);
        let log = RateLimitedLog::default();
        let mut connections = Connections::new(self.connections_max);
        loop {
            tokio::select! {
                _ = orders.changed() => break,
                Some(_ended) = connections.tasks.join_next() => connections.forget_ended(),
                accepted = self.listener.accept(), if connections.have_room() => match accepted {
                    Ok((stream, peer)) => {
                        connections.begin((stream, AskedBy(peer)), router.clone(), self.tokens.clone());
                        // Requests that have come are read before the next connection is accepted.
                        tokio::task::yield_now().await;
                    }
                    Err(error) => {
                        if let Some(repeats) = log.report() {
                            warn!(%error, repeats, "the admin cannot accept a connection; trying again");
                        }
                        tokio::time::sleep(STARVED_PAUSE).await;
                    }
                },
            }
        }
        let is_waited_for = |open: &Open| {
            open.has_asked.load(Ordering::Relaxed) && !open.endless.has_begun.load(Ordering::Relaxed)
        };
        for open in connections.open.iter().filter(|open| !is_waited_for(open)) {
            open.task.abort();
        }
        let finish = async { while connections.tasks.join_next().await.is_some() {} };
        let _in_time = tokio::time::timeout(END_PATIENCE, finish).await;
    }
}

/// The open connections, the oldest first.
struct Connections {
    max: usize,
    tasks: JoinSet<()>,
    open: VecDeque<Open>,
    denials: Arc<Mutex<RateLimitedLog>>,
}

struct Open {
    task: AbortHandle,
    /// The head of its request has come.
    has_asked: Arc<AtomicBool>,
    endless: Arc<Endless>,
}

impl Connections {
    fn new(max: usize) -> Connections {
        Connections { max, tasks: JoinSet::new(), open: VecDeque::new(), denials: Arc::default() }
    }

    fn forget_ended(&mut self) {
        self.open.retain(|open| !open.task.is_finished());
    }

    /// Whether another connection may be accepted, if need be in place of one without a request.
    fn have_room(&self) -> bool {
        self.open.len() < self.max || self.oldest_silent().is_some()
    }

    fn oldest_silent(&self) -> Option<usize> {
        self.open.iter().position(|open| !open.has_asked.load(Ordering::Relaxed))
    }

    fn begin(&mut self, from: (TcpStream, AskedBy), router: Router, tokens: Option<Arc<ServedTokens>>) {
        if self.open.len() >= self.max
            && let Some(silent) = self.oldest_silent().and_then(|place| self.open.remove(place))
        {
            silent.task.abort();
        }
        let has_asked = Arc::new(AtomicBool::new(false));
        let endless = Arc::new(Endless::default());
        let told = (Arc::clone(&has_asked), Arc::clone(&endless));
        let door = tokens.map(|tokens| Door { tokens, denials: Arc::clone(&self.denials) });
        let task = self.tasks.spawn(serve_connection(from, router, door, told));
        self.open.push_back(Open { task, has_asked, endless });
    }
}

/// Who is let in.
struct Door {
    tokens: Arc<ServedTokens>,
    denials: Arc<Mutex<RateLimitedLog>>,
}

impl Door {
    /// The answer to who is not let in.
    fn refusal(&self, request: &Request<Incoming>, AskedBy(peer): AskedBy) -> Option<Response> {
        if routes::is_public(request.uri().path()) {
            return None;
        }
        let denied = self.tokens.check(bearer(request.headers())).err()?;
        let due = self.denials.lock().unwrap_or_else(PoisonError::into_inner).report();
        if let Some(repeats) = due {
            warn!(%peer, %denied, repeats, "the admin refused a request");
        }
        Some(unauthorized(denied))
    }
}

/// One request and its response.
async fn serve_connection(
    (stream, asked_by): (TcpStream, AskedBy),
    router: Router,
    door: Option<Door>,
    (has_asked, endless): (Arc<AtomicBool>, Arc<Endless>),
) {
    let routes = TowerToHyperService::new(router);
    let of_request = Arc::clone(&endless);
    let service = service_fn(move |mut request: Request<Incoming>| {
        request.extensions_mut().insert(Arc::clone(&of_request));
        request.extensions_mut().insert(asked_by);
        let refusal = door.as_ref().and_then(|door| door.refusal(&request, asked_by));
        // One that waits to be refused makes room for others.
        has_asked.store(refusal.is_none(), Ordering::Relaxed);
        let routes = routes.clone();
        async move {
            let Some(refusal) = refusal else { return routes.call(request).await };
            tokio::time::sleep(DENIED_PAUSE).await;
            Ok(refusal)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_PATIENCE)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    // An error of the client concerns only the client.
    if tokio::time::timeout(CONNECTION_PATIENCE, &mut connection).await.is_err()
        && endless.has_begun.load(Ordering::Relaxed)
    {
        tokio::select! {
            _done = connection => {}
            // Its last bytes have been given to the system, or the client does not read.
            () = endless.ended.notified() => {}
        }
    }
}

fn unauthorized(denied: Denied) -> Response {
    let text = format!("{denied}; bbq status: --token-file, or the header Authorization: Bearer TOKEN\n");
    (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")], text).into_response()
}
