//! The server as its program sees it.

use std::sync::mpsc::sync_channel;

use bbq_server::{HandlerError, Messages, Server, StartError};

use crate::support::{ENOUGH, builder, delivered, problem, send, wait_until};

fn take(_: Messages<'_>) -> Result<(), HandlerError> {
    Ok(())
}

#[test]
fn what_is_known_about_a_message_comes_with_it_and_a_stop_drains() {
    let directory = tempfile::tempdir().unwrap();
    let (tell, told) = sync_channel(ENOUGH);
    let handler = move |messages: Messages<'_>| -> Result<(), HandlerError> {
        for message in messages {
            let age = message.received.elapsed()?;
            tell.send((message.bytes.to_vec(), message.listener.to_owned(), message.peer, age))?;
        }
        Ok(())
    };
    let server = builder(directory.path()).handler("all", handler).start().unwrap();
    let status = server.status().unwrap();
    assert!(status.ready, "start() returns when the server is ready");
    assert_eq!(status.sinks[0].spec, "handler:all");
    send(&server, (0..1000).map(|number| format!("message {number}")));
    assert!(server.stop());
    let got: Vec<_> = told.iter().collect();
    assert_eq!(got.len(), 1000, "a stop drains");
    for (number, (bytes, listener, peer, _)) in got.iter().enumerate() {
        assert_eq!(*bytes, format!("message {number}").into_bytes());
        assert_eq!(listener, "lines");
        assert!(matches!(peer, bbq_server::Peer::Inet(address) if address.ip().is_loopback()), "{peer:?}");
    }
}

#[test]
fn a_server_that_is_dropped_is_over_and_the_next_one_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    for round in 1..=2 {
        let server = builder(directory.path()).handler("all", take).start().unwrap();
        assert!(matches!(builder(directory.path()).handler("all", take).start(), Err(StartError::Spool(_))));
        send(&server, ["one".to_owned()]);
        wait_until("delivery", || delivered(&server) == round);
        assert_eq!(problem(&server), None);
        drop(server);
    }
}

#[test]
fn the_handlers_drop_has_ended_when_stop_returns() {
    struct Closes(std::sync::mpsc::SyncSender<&'static str>);
    impl Drop for Closes {
        fn drop(&mut self) {
            self.0.send("closed").unwrap();
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let (tell, told) = sync_channel(ENOUGH);
    let closes = Closes(tell);
    let handler = move |_: Messages<'_>| -> Result<(), HandlerError> {
        let _in_use = &closes;
        Ok(())
    };
    let server = builder(directory.path()).handler("all", handler).start().unwrap();
    send(&server, ["one".to_owned()]);
    wait_until("delivery", || delivered(&server) == 1);
    server.stop();
    assert_eq!(told.try_recv(), Ok("closed"));
}

#[test]
fn a_panic_in_a_thread_of_the_program_leaves_the_server_alone() {
    let directory = tempfile::tempdir().unwrap();
    let server = builder(directory.path()).handler("all", take).start().unwrap();
    let panics = std::thread::Builder::new().name("worker-0".to_owned()).spawn(|| panic!("on purpose"));
    assert!(panics.unwrap().join().is_err());
    send(&server, ["one".to_owned()]);
    wait_until("delivery", || delivered(&server) == 1);
    assert!(server.stop());
}

#[test]
fn mistakes_name_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let start = |change: &dyn Fn(bbq_server::ServerBuilder) -> bbq_server::ServerBuilder| {
        let error = change(builder(directory.path())).start().unwrap_err();
        assert!(error.is_usage(), "{error:?}");
        error.to_string()
    };
    for (says, error) in [
        ("is not a name", start(&|builder| builder.handler("", take))),
        ("another sink has this name", start(&|builder| builder.handler("a", take).handler("a", take))),
        ("1 to 1024 handlers", start(&|builder| builder.handlers("a", 0, |_| take))),
        ("1 to 1024 handlers", start(&|builder| builder.handlers("a", 5000, |_| take))),
        ("did you mean", start(&|builder| builder.set("wokers", "2"))),
        ("is not a sink", start(&|builder| builder.sink("handler:a"))),
        ("nowhere.toml", start(&|builder| builder.config_file("/nowhere.toml"))),
    ] {
        assert!(error.contains(says), "{error}");
    }
    assert!(Server::builder().data(directory.path()).listen("lines+tcp://127.0.0.1:x").start().is_err());
}
