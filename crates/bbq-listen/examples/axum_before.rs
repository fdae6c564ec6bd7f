//! An axum application as many are: on tokio's listener, in one runtime. `axum_after` is the same, moved to bbq-listen.
//!
//!     cargo run --release -p bbq-listen --example axum_before -- 127.0.0.1:8080

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

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".to_owned());
    let app = app();
    let listener = tokio::net::TcpListener::bind(&address).await?;
    println!("listening on {}", listener.local_addr()?);
    axum::serve(listener, app).await
}
