//! The axum application of `axum_before`, moved to bbq-listen by changing five lines of `main`: a worker with a runtime
//! of its own for each processor, nobody waits for a worker that is stalled, and a stop loses no request.
//!
//!     cargo run --release -p bbq-listen --example axum_after -- 127.0.0.1:8080

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};

fn app() -> Router {
    Router::new()
        .route("/", get(async || "OK"))
        .route("/echo", post(async |body: String| body))
        .route("/visits", get(visits))
        .with_state(Arc::new(AtomicU64::new(0)))
}

async fn visits(State(count): State<Arc<AtomicU64>>) -> Json<u64> {
    Json(count.fetch_add(1, Relaxed) + 1)
}

fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let app = app();
    let group = bbq_listen::Group::at(&address)?.activated_or_open()?;
    println!("listening on {}", group.local_address());
    group.run_tokio(|listener| listener.serve_axum(app.clone()))
}
