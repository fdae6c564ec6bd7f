//! If this fails, the end or the failure of one worker loses connections, or keeps the others running unseen.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bbq_listen::{AsyncListener, Group, TokioRunner};

use crate::client::{DISTRIBUTIONS, answer, beside, connect, greet};
use crate::common;

#[test]
fn the_others_take_the_connections_of_a_worker_that_has_ended() {
    for word in DISTRIBUTIONS {
        let group = common::group("tcp", word.parse().unwrap(), 3);
        let serve = async |listener: AsyncListener| {
            if listener.worker_listener().worker() == 1 { Ok(()) } else { greet(listener).await }
        };
        beside(&group, serve, |to| {
            let mut streams: Vec<_> = (0..100).map(|_| connect(to)).collect();
            streams.iter_mut().for_each(|stream| assert_ne!(answer(stream), 1, "{word}"));
        });
    }
}

#[test]
fn it_ends_when_all_workers_have_ended() {
    let group = common::group("tcp", "auto".parse().unwrap(), 2);
    TokioRunner::new().serve(&group, async |_listener| Ok(())).run_until(std::future::pending()).unwrap();
}

#[test]
fn an_error_of_one_worker_ends_all() {
    let group = common::group("tcp", "auto".parse().unwrap(), 3);
    let serve = async |listener: AsyncListener| {
        if listener.worker_listener().worker() == 1 {
            return Err(io::Error::other("out of luck"));
        }
        greet(listener).await
    };
    let error = TokioRunner::new().serve(&group, serve).run_until(std::future::pending()).unwrap_err();
    assert_eq!(error.to_string(), "out of luck");
}

#[test]
fn a_panic_of_one_worker_ends_all() {
    let group = common::group("tcp", "auto".parse().unwrap(), 3);
    let serve = async |listener: AsyncListener| {
        assert_ne!(listener.worker_listener().worker(), 1, "out of luck");
        greet(listener).await
    };
    let run = AssertUnwindSafe(|| TokioRunner::new().serve(&group, serve).run_until(std::future::pending()));
    assert!(catch_unwind(run).is_err());
}

/// `axum::serve` cannot return the error of a listener.
#[test]
fn a_socket_that_was_shut_down_ends_it_under_axum_too() {
    let group = common::group("tcp", "shared".parse().unwrap(), 1);
    let serve = |listener| {
        let socket = &group.sockets()[0];
        rustix::net::shutdown(socket, rustix::net::Shutdown::Both).unwrap();
        axum::serve(listener, axum::Router::<()>::new())
    };
    let error = TokioRunner::new().serve(&group, serve).run_until(std::future::pending()).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
}

#[test]
fn in_a_runtime_it_says_where_to_call_it() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let group = Group::at("127.0.0.1:0").unwrap().open().unwrap();
    let error = runtime.block_on(async { group.run_tokio(greet).unwrap_err() });
    assert!(error.to_string().contains("outside of a runtime"), "{error}");
}

#[test]
fn datagrams_are_refused() {
    let group = common::group("udp", "auto".parse().unwrap(), 2);
    let error = TokioRunner::new().serve(&group, greet).run_until(std::future::pending()).unwrap_err();
    assert!(error.to_string().contains("datagrams"), "{error}");
}
