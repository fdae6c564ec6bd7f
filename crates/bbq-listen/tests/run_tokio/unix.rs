//! If this fails, the connections of a unix socket are not served one by one, by tokio or by axum, or are lost at a stop.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::future::{pending, ready};
use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::Path;
use std::thread;

use axum::Router;
use axum::routing::get;
use bbq_listen::{AsyncListener, Group, GroupOptions, TokioRunner};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

use crate::client::{self, LOST};
use crate::common;

const DISTRIBUTIONS: [&str; 3] = ["shared", "accept-mutex", "handoff"];

fn group(path: &Path, distribution: &str) -> Group {
    let address = format!("unix://{}", path.display()).parse().unwrap();
    GroupOptions::new(address, 3).distribution(distribution.parse().unwrap()).open().unwrap()
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(LOST)).unwrap();
    stream
}

/// Answers with the user of the client.
async fn greet(listener: AsyncListener) -> io::Result<()> {
    let mut listener = listener.into_unix()?;
    loop {
        let (mut stream, peer) = listener.accept().await?;
        assert!(peer.is_unnamed());
        let user = stream.peer_cred()?.uid().to_string();
        tokio::spawn(async move { stream.write_all(user.as_bytes()).await });
    }
}

#[test]
fn what_is_queued_is_served() {
    let directory = tempfile::tempdir().unwrap();
    for word in DISTRIBUTIONS {
        let path = directory.path().join(word);
        let group = group(&path, word);
        let streams: Vec<UnixStream> = (0..50).map(|_| connect(&path)).collect();
        TokioRunner::new().serve(&group, greet).run_until(ready(())).unwrap();
        for mut stream in streams {
            let mut user = String::new();
            stream.read_to_string(&mut user).unwrap();
            assert_eq!(user, rustix::process::getuid().as_raw().to_string(), "{word}");
        }
        assert_eq!(group.open_connections().iter().sum::<usize>(), 0, "{word}");
    }
}

#[test]
fn axum_serves_them() {
    let app = || Router::new().route("/", get(async || "hello"));
    answers_http(async |listener: AsyncListener| axum::serve(listener.into_unix()?, app()).await);
    answers_http(|listener: AsyncListener| listener.serve_axum(app()));
}

fn answers_http<Serving: IntoFuture<Output = io::Result<()>>>(
    serve: impl Fn(AsyncListener) -> Serving + Sync,
) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let group = group(&path, "shared");
    let (stop, stopped) = oneshot::channel::<()>();
    thread::scope(|threads| {
        threads.spawn(|| {
            let _stop = stop;
            let mut stream = connect(&path);
            stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
            let mut response = String::new();
            stream.read_to_string(&mut response).unwrap();
            assert!(response.starts_with("HTTP/1.1 200") && response.ends_with("hello"), "{response}");
        });
        TokioRunner::new().serve(&group, serve).run_until(async { drop(stopped.await) }).unwrap();
    });
}

/// A server whose address is configured has one code for all.
#[test]
fn one_listener_serves_tcp_files_and_abstract_names() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("socket");
    let name = format!("bbq-listen-any-{}", std::process::id());
    let abstract_client =
        || UnixStream::connect_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    let groups = ["127.0.0.1:0".to_owned(), format!("unix://{}", path.display()), format!("unix://@{name}")]
        .map(|address| Group::at(&address).unwrap().workers(2).open().unwrap());
    let mut tcp = client::connect(common::port_of(&groups[0]));
    let mut unix = [connect(&path), abstract_client()];
    let serve = async |listener: AsyncListener| {
        let is_tcp = listener.local_addr().is_ok();
        let mut listener = listener.into_any();
        loop {
            let (mut stream, peer) = listener.accept().await?;
            assert_eq!(peer.0.is_some(), is_tcp);
            tokio::spawn(async move {
                let mut byte = [0];
                stream.read_exact(&mut byte).await?;
                stream.write_all(&byte).await
            });
        }
    };
    tcp.write_all(b"t").unwrap();
    unix.iter_mut().for_each(|stream| stream.write_all(b"u").unwrap());
    let runner = groups.iter().fold(TokioRunner::new(), |runner, group| runner.serve(group, serve));
    runner.run_until(ready(())).unwrap();
    assert_eq!(client::answer(&mut tcp), b't');
    for stream in &mut unix {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"u");
    }
}

#[test]
fn each_listener_refuses_the_other_kind_and_names_the_way() {
    let tcp = common::group("tcp", "auto".parse().unwrap(), 2);
    let error = TokioRunner::new().serve(&tcp, greet).run_until(pending()).unwrap_err();
    assert!(error.to_string().contains("is not a unix socket"), "{error}");
    let directory = tempfile::tempdir().unwrap();
    let unix = group(&directory.path().join("socket"), "shared");
    let serve = async |mut listener: AsyncListener| listener.accept().await.map(drop);
    let error = TokioRunner::new().serve(&unix, serve).run_until(pending()).unwrap_err();
    assert!(error.to_string().contains("into_unix"), "{error}");
}
