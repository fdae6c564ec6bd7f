//! The admin's HTTP: `/status` in JSON, and `/health` for load balancers and probes.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

use crate::server::Parts;
use crate::status::Status;

/// Answers until it is told to end, and then what has been asked. `parts` changes with a restart in place.
pub(crate) async fn serve(
    listener: TcpListener,
    parts: watch::Receiver<Arc<Parts>>,
    end: oneshot::Receiver<()>,
) -> std::io::Result<()> {
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
