//! gRPC on a group: tonic's routes are an axum router, so axum serves them. The service is tonic's health check, which
//! needs no protoc. axum needs its feature `http2`.
//!
//!     cargo run --release -p bbq-listen --example tonic_hello -- 127.0.0.1:50051
//!     grpcurl -plaintext -d '{}' 127.0.0.1:50051 grpc.health.v1.Health/Check

use bbq_listen::Group;
use tonic::service::Routes;
use tonic_health::server::health_reporter;

fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:50051".to_owned());
    let (_reporter, health) = health_reporter();
    let routes = Routes::new(health);
    let group = Group::at(&address)?.nodelay(true).activated_or_open()?;
    println!("listening on {}", group.local_address());
    group.run_tokio(|listener| listener.serve_axum(routes.clone().into_axum_router()))
}
