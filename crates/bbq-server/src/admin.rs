//! The admin's HTTP: `/status` in JSON, and `/health` for load balancers and probes.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use tokio::net::TcpListener;

use crate::server::Parts;
use crate::status::Status;

/// Answers until the control thread ends.
pub(crate) async fn serve(listener: TcpListener, parts: Arc<Parts>) -> std::io::Result<()> {
    let router = Router::new()
        .route("/", get(async || "bbq: /status (JSON), /health\n"))
        .route("/status", get(async |State(parts): State<Arc<Parts>>| Json(parts.status())))
        .route("/health", get(async |State(parts): State<Arc<Parts>>| health(&parts.status())))
        .with_state(parts);
    axum::serve(listener, router).await
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
