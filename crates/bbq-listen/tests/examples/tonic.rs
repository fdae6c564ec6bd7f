//! If this fails, a gRPC server on a group answers no client, or does not stop while a client keeps its connection.

use crate::example::{Example, command};
use tonic::transport::Endpoint;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

#[test]
fn it_serves_a_client_of_tonic_and_ends_by_sigterm() {
    let server = Example::spawn(command("tonic_hello").arg("127.0.0.1:0"));
    let endpoint = Endpoint::new(format!("http://{}", server.address)).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let client = runtime.block_on(async {
        let mut client = HealthClient::new(endpoint.connect().await.unwrap());
        for _ in 0..10 {
            let answer = client.check(HealthCheckRequest { service: String::new() }).await.unwrap();
            assert_eq!(answer.into_inner().status(), ServingStatus::Serving);
        }
        client
    });
    assert!(server.terminate().success);
    drop(client);
}
