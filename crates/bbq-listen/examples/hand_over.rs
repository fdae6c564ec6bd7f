//! A server that is restarted without losing a request: run the same command again, and the new process replaces the old one.
//!
//!     cargo run --release -p bbq-listen --example hand_over -- 127.0.0.1:8080 /tmp/server.hand-over

use axum::{Router, routing::get};
use bbq_listen::{Group, HandOver, TokioRunner};

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mut argument = |default: &str| arguments.next().unwrap_or_else(|| default.to_owned());
    let (address, path) = (argument("127.0.0.1:8080"), argument("/tmp/server.hand-over"));
    let app = Router::new().route("/", get(async || "OK"));
    let mut hand_over = HandOver::at(path)?;
    let group = hand_over.open(&Group::at(&address)?)?;
    println!("listening on {}", group.local_address());
    TokioRunner::new().hand_over(hand_over).serve(&group, |listener| listener.serve_axum(app.clone())).run()
}
