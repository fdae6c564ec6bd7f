//! `POST /reload`: asks the control thread to read the configuration again, and says how that ended. With `?anyway`, a change that
//! is in doubt (`lifecycle/doubt.rs`) is made at once.
//!
//! Who may send a signal to a process is the system's business; who may ask here is decided in `routes`: whoever has a token, and
//! without tokens only a program on this machine that is no web page.

use axum::http::StatusCode;
use axum::http::header::CACHE_CONTROL;
use axum::response::{IntoResponse as _, Response};
use tokio::sync::{mpsc, oneshot};

/// Requests that wait for the control thread. It makes one change after the other, so more of them would only repeat what these ask.
const WAITING_MAX: usize = 2;

/// What the control thread gets.
#[derive(Debug)]
pub struct ReloadRequest {
    /// Whether a change that is in doubt is meant.
    pub anyway: bool,
    /// What was done, or why nothing was.
    pub tell: oneshot::Sender<Result<String, String>>,
}

/// The requests, for the control thread.
pub type ReloadRequests = mpsc::Receiver<ReloadRequest>;

/// The admin's side.
#[derive(Clone, Debug)]
pub(crate) struct ReloadDoor(mpsc::Sender<ReloadRequest>);

impl ReloadDoor {
    pub(crate) fn new() -> (ReloadDoor, ReloadRequests) {
        let (ask, asked) = mpsc::channel(WAITING_MAX);
        (ReloadDoor(ask), asked)
    }

    /// Asks, and waits until the change is made or refused.
    pub(crate) async fn ask(&self, query: &str) -> Response {
        let anyway = match query {
            "" => false,
            "anyway" => true,
            _ => return answer(StatusCode::BAD_REQUEST, "use POST /reload or POST /reload?anyway"),
        };
        let (tell, told) = oneshot::channel();
        if self.0.try_send(ReloadRequest { anyway, tell }).is_err() {
            return answer(
                StatusCode::SERVICE_UNAVAILABLE,
                "other reloads are under way, or the server stops; try again",
            );
        }
        match told.await {
            Ok(Ok(done)) => answer(StatusCode::OK, &done),
            Ok(Err(why)) => answer(StatusCode::CONFLICT, &why),
            Err(_) => answer(StatusCode::SERVICE_UNAVAILABLE, "the server stops"),
        }
    }
}

fn answer(code: StatusCode, text: &str) -> Response {
    (code, [(CACHE_CONTROL, "no-store")], format!("{text}\n")).into_response()
}
