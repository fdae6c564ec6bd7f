//! The admin's HTTP: `/status` in JSON, and `/health` for load balancers and probes.

use std::io;
use std::net::TcpListener as AdminListener;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;
use tracing::error;

use crate::server::Parts;
use crate::status::Status;

/// How long those who have asked something may take to get their answer when it ends.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// The admin while it answers, on the runtime that it was started in.
pub(crate) struct Admin {
    end: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Admin {
    /// Answers with what `parts` holds at the time; the listener stays open when it ends.
    pub(crate) fn start(listener: &AdminListener, parts: &watch::Receiver<Arc<Parts>>) -> io::Result<Admin> {
        let listener = TcpListener::from_std(listener.try_clone()?)?;
        let (end, ended) = oneshot::channel();
        let parts = parts.clone();
        let task = tokio::spawn(async move {
            if let Err(error) = serve(listener, parts, ended).await {
                error!(%error, "the admin failed");
            }
        });
        Ok(Admin { end, task })
    }

    /// Accepts nobody any more; who has asked is answered.
    pub(crate) async fn end(self) {
        // An error means that it has ended.
        let _ended = self.end.send(());
        let abort = self.task.abort_handle();
        if tokio::time::timeout(END_PATIENCE, self.task).await.is_err() {
            abort.abort();
        }
    }
}

/// Answers until it is told to end, and then what has been asked. `parts` changes with a restart in place.
async fn serve(
    listener: TcpListener,
    parts: watch::Receiver<Arc<Parts>>,
    end: oneshot::Receiver<()>,
) -> io::Result<()> {
    let router = Router::new()
        .route("/", get(async || "bbq: /status (JSON), /health\n"))
        .route("/status", get(async |State(parts): State<Now>| Json(status(&parts))))
        .route("/health", get(async |State(parts): State<Now>| health(&status(&parts))))
        .with_state(parts);
    let ended = async {
        // An error means that nobody is left to say so.
        let _end = end.await;
    };
    axum::serve(listener, router).with_graceful_shutdown(ended).await
}

type Now = watch::Receiver<Arc<Parts>>;

fn status(parts: &Now) -> Status {
    let parts = Arc::clone(&parts.borrow());
    parts.status()
}

/// 200 when everything works as configured, 503 and why when not.
fn health(status: &Status) -> (StatusCode, String) {
    if status.ready && status.troubles.is_empty() {
        return (StatusCode::OK, "ok\n".to_owned());
    }
    let mut text = status.troubles.join("\n");
    if !status.ready {
        text.insert_str(0, "not ready\n");
    }
    text.push('\n');
    (StatusCode::SERVICE_UNAVAILABLE, text)
}
